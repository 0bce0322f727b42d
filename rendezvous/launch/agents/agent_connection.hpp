// How an agent connects to its launcher. It tries the launcher's addresses until one answers and proves that it has the
// job's secret. One thread; blocks.
#pragma once
#include "rendezvous/launch/agents/agent_task.hpp"
#include "rendezvous/launch/base/descriptor.hpp"

namespace anello::launch {

struct AgentConnection {
  Descriptor messages, lifeline;
  std::string address;  // address of this host, numeric, as the launcher's host sees it
};

// `number`: the number of the agent's host in the layout. For each of the two connections, tries all addresses at least
// once, and begins no new round after 4 s. If no address answers, throws Error{network} that lists the attempts.
AgentConnection connect_to_launcher(const AgentTask& task, int number);

}  // namespace anello::launch
