/* Calls as a record: anello_carry_out and anello_named_submit, by one rank or several. Ends with 1 and a line for each
 * expectation that failed. */
#include <anello/anello.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "expect.h"

enum { kMax = 16 };
static anello_group* group;
static int rank, size;
static float in[kMax], out[kMax];

static anello_call made(int kind, size_t inputs, size_t outputs) {
  anello_call call = ANELLO_CALL_INIT;
  int i;
  for (i = 0; i < kMax; i++) {
    in[i] = (float)(rank * 100 + i);
    out[i] = -1;
  }
  call.kind = kind;
  call.input.data = in;
  call.input.count = inputs;
  call.output.data = out;
  call.output.count = outputs;
  call.input.dtype = call.output.dtype = ANELLO_F32;
  return call;
}

static void carry_out(const anello_call* call, int started) {
  anello_work* work = NULL;
  OK(anello_carry_out(group, call, started ? &work : NULL));
  if (!started) return;
  OK(anello_work_wait(work));
  anello_work_free(work);
}

static float sum(int i) {
  return (float)(size * i + 50 * size * (size - 1));
}

static void reductions(int started) {
  const size_t n = (size_t)size;
  anello_options options = ANELLO_OPTIONS_INIT;
  anello_tensor list[2];
  anello_call call = made(ANELLO_ALLREDUCE, 3, 3);
  options.name = "record";
  options.postscale = 2;
  call.options = &options;
  carry_out(&call, started);
  EXPECT(out[0] == 2 * sum(0) && out[2] == 2 * sum(2) && out[3] == -1);
  call = made(ANELLO_ALLREDUCE, 0, 0);
  call.op = ANELLO_MAX;
  list[0] = call.output;
  list[1] = call.output;
  list[0].data = in;
  list[1].data = in + 4;
  list[0].count = list[1].count = 2;
  call.list = list;
  call.list_size = 2;
  carry_out(&call, started);
  EXPECT(in[1] == (float)(100 * (size - 1) + 1) && in[5] == (float)(100 * (size - 1) + 5));
  EXPECT(in[3] == (float)(100 * rank + 3));
  call = made(ANELLO_REDUCE, 2, 2);
  call.root = size - 1;
  carry_out(&call, started);
  EXPECT(out[1] == (rank == size - 1 ? sum(1) : -1));
  call = made(ANELLO_REDUCE_SCATTER, n, 1);
  carry_out(&call, started);
  EXPECT(out[0] == sum(rank));
}

static void moves(int started) {
  const size_t n = (size_t)size;
  anello_call call = made(ANELLO_BROADCAST, 0, 2);
  out[1] = in[1];
  call.root = size - 1;
  carry_out(&call, started);
  EXPECT(out[1] == (float)(100 * (size - 1) + 1));
  call = made(ANELLO_ALLGATHER, 1, n);
  carry_out(&call, started);
  EXPECT(out[0] == 0 && out[size - 1] == (float)(100 * (size - 1)));
  call = made(ANELLO_GATHER, 1, n);
  carry_out(&call, started);
  EXPECT(out[size - 1] == (rank == 0 ? (float)(100 * (size - 1)) : -1));
  call = made(ANELLO_SCATTER, n, 1);
  carry_out(&call, started);
  EXPECT(out[0] == (float)rank);
  call = made(ANELLO_BARRIER, 0, 0);
  carry_out(&call, started);
}

static void parts(int started) {
  uint64_t sends[kMax], receives[kMax];
  int i;
  anello_call call = made(ANELLO_ALLTOALL, (size_t)size, (size_t)size);
  carry_out(&call, started);
  for (i = 0; i < size; i++) EXPECT(out[i] == (float)(100 * i + rank));
  call = made(ANELLO_ALLTOALL, 0, 0);
  for (i = 0; i < size; i++) {
    sends[i] = (uint64_t)i;
    receives[i] = (uint64_t)rank;
    call.input.count += (size_t)i;
    call.output.count += (size_t)rank;
  }
  call.send_counts = sends;
  call.recv_counts = receives;
  carry_out(&call, started);
  if (rank > 0) EXPECT(out[0] == (float)(rank * (rank - 1) / 2));
}

static void transfers(void) {
  anello_call send = made(ANELLO_SEND, 2, 0), receive = made(ANELLO_RECV, 0, 2);
  anello_work* work = NULL;
  if (size == 1) return;
  send.to = (rank + 1) % size;
  receive.from = (rank + size - 1) % size;
  OK(anello_carry_out(group, &send, &work));
  OK(anello_carry_out(group, &receive, NULL));
  OK(anello_work_wait(work));
  anello_work_free(work);
  EXPECT(out[1] == (float)(100 * receive.from + 1));
}

/* A record of an older version is shorter, one of a newer version longer. */
static void versions(void) {
  struct {
    anello_call known;
    char more[64];
  } newer;
  anello_call call = made(ANELLO_ALLREDUCE, 1, 1);
  const anello_tensor list = call.output;
  call.list = &list;
  call.struct_size = offsetof(anello_call, list);
  OK(anello_carry_out(group, &call, NULL));
  EXPECT(out[0] == sum(0) && in[0] == (float)(100 * rank));
  memset(&newer, 1, sizeof newer);
  newer.known = made(ANELLO_ALLREDUCE, 1, 1);
  newer.known.struct_size = sizeof newer;
  OK(anello_carry_out(group, &newer.known, NULL));
  EXPECT(out[0] == sum(0));
}

static void refusals(void) {
  anello_call call = made(ANELLO_ALLREDUCE, 1, 2);
  EXPECT(anello_carry_out(group, &call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_carry_out(NULL, &call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(anello_carry_out(group, NULL, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "the call is NULL") != NULL);
  call.kind = ANELLO_EXCHANGE;
  EXPECT(anello_carry_out(group, &call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "kind 12 is for anello_gpu_carry_out") != NULL);
  call.kind = ANELLO_EXCHANGE + 1;
  call.input.count = call.output.count = 0;
  EXPECT(anello_carry_out(group, &call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "kind must be one of anello_kind, not 13") != NULL);
  call.kind = ANELLO_SEND;
  EXPECT(anello_carry_out(group, &call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), "peer -1") != NULL);
  call.struct_size = 0;
  EXPECT(anello_carry_out(group, &call, NULL) == ANELLO_INVALID_ARGUMENT);
}

static void refused(const anello_call* call, const char* why) {
  EXPECT(anello_carry_out(group, call, NULL) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), why) != NULL);
}

/* Members that the kind does not take. If they were ignored, these calls would succeed and move nothing. */
static void extra_members(void) {
  const uint64_t counts[kMax] = {0};
  const anello_array array = {in, counts, 1, ANELLO_F32};
  anello_call call = made(ANELLO_REDUCE, 0, 0);
  const anello_tensor list = call.output;
  call.list = &list;
  call.list_size = 1;
  refused(&call, "kind 6 takes no list");
  call.kind = ANELLO_BROADCAST;
  call.input.count = 1;
  refused(&call, "kind 2 takes no input beside a list");
  call = made(ANELLO_BROADCAST, 1, 0);
  refused(&call, "kind 2 takes no input");
  call = made(ANELLO_BARRIER, 0, 1);
  refused(&call, "kind 5 takes no output");
  call = made(ANELLO_ALLREDUCE, 1, 1);
  call.send_counts = counts;
  refused(&call, "kind 1 takes no counts of each rank");
  call = made(ANELLO_ALLREDUCE, 0, 0);
  call.inputs = &array;
  call.arrays_size = 1;
  refused(&call, "kind 1 takes no array, except in anello_named_submit");
}

static void named_refused(anello_agenda* agenda, const char* name, const anello_call* call, const char* why) {
  anello_named* operation = NULL;
  EXPECT(anello_named_submit(agenda, name, call, NULL, &operation) == ANELLO_INVALID_ARGUMENT);
  EXPECT(strstr(anello_last_error(), why) != NULL);
}

static void named(void) {
  const uint64_t shape = 4;
  anello_array tensors[2] = {{in, NULL, 1, ANELLO_F32}, {out, NULL, 1, ANELLO_F32}};
  anello_call call = ANELLO_CALL_INIT;
  anello_agenda* agenda = NULL;
  anello_named* operation = NULL;
  made(ANELLO_ALLREDUCE, 4, 4);
  tensors[0].shape = tensors[1].shape = &shape;
  OK(anello_agenda_create(group, &agenda));
  call.kind = ANELLO_ALLREDUCE;
  call.inputs = &tensors[0];
  call.outputs = &tensors[1];
  call.arrays_size = 1;
  OK(anello_named_submit(agenda, "record", &call, NULL, &operation));
  OK(anello_named_wait(operation, UINT64_MAX));
  anello_named_free(operation);
  EXPECT(out[3] == sum(3));
  call.send_counts = &shape;
  named_refused(agenda, "splits", &call, "splits are for alltoall");
  call.send_counts = NULL;
  call.input.count = 4;
  named_refused(agenda, "input", &call, "a named operation has inputs, outputs and its own options");
  call.kind = ANELLO_GATHER;
  named_refused(agenda, "gather", &call, "kind 7 is not one of the named operations");
  OK(anello_carry_out(group, &(anello_call){.struct_size = sizeof call, .kind = ANELLO_BARRIER}, NULL));
  anello_agenda_free(agenda);
}

int main(void) {
  anello_world* world = NULL;
  int started;
  OK(anello_init(NULL, &world));
  group = anello_world_group(world);
  rank = anello_rank(group);
  size = anello_size(group);
  for (started = 0; started < 2; started++) {
    reductions(started);
    moves(started);
    parts(started);
  }
  transfers();
  versions();
  refusals();
  extra_members();
  named();
  OK(anello_finish(world));
  anello_world_free(world);
  return failures > 0;
}
