// The world and the process sets that Python has made, by their numbers.
#pragma once
#include <anello/anello.h>

#include <memory>
#include <vector>

namespace anello::tensorflow {

struct World {
  int rank, size, local_rank, local_size;
};

struct ProcessSet {
  anello_agenda* agenda = nullptr;  // the set's agenda on this process; null if it is not a member
  std::vector<int> members;         // ranks of the world
  int rank = -1;                    // this process's number in the set

  int size() const { return int(members.size()); }
  // Returns the number of a rank of the world in the set; -1 if it is not a member.
  int rank_of(int world_rank) const;
};

// If Python has not made the world or the process set, or has removed it, these functions throw Failure.
World world();
// While the caller holds the result, the agenda is not freed. Hold it only during one call that does not wait.
std::shared_ptr<const ProcessSet> process_set(int id);
// Like process_set(), but also throws Failure if this process is not a member.
std::shared_ptr<const ProcessSet> own_process_set(int id);

}  // namespace anello::tensorflow

// Called by Python, from any thread.
ANELLO_API_BEGIN
extern "C" {
void anello_tensorflow_begin_world(int rank, int size, int local_rank, int local_size);
// `agenda` is borrowed until the process set is removed; NULL if this process is not a member. `members`: ranks of the
// world.
void anello_tensorflow_add_process_set(int id, anello_agenda* agenda, int size, const int* members);
// When these functions have returned, no kernel uses the agenda any more.
void anello_tensorflow_remove_process_set(int id);
void anello_tensorflow_end_world(void);
}
ANELLO_API_END
