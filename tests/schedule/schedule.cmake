# Read by CTest after all tests. takes(SECONDS FIFTHS TEST...): how long tests take on two cores, and which part of a
# place they need. What takes longer begins earlier; what is not here takes less than two seconds. A test that computes
# needs a whole place. One that mostly waits needs a fifth of it, so that others compute meanwhile. tests/run.sh has one
# place more than the machine has cores.
function(takes seconds fifths)
  set_tests_properties(${ARGN} PROPERTIES COST ${seconds} PROCESSORS ${fifths})
endfunction()

# The soak judges how soon ranks receive errors, and what they leave. It takes two places: on two cores one is left, so
# that its ranks and what runs beside them, which has a lower priority, get their cores in time.
execute_process(COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/../faults/undisturbed.sh RESULT_VARIABLE disturbed OUTPUT_QUIET
  ERROR_QUIET)
takes(61 10 Soak.LeavesNothingBehind)
if(disturbed)
  set_tests_properties(Soak.LeavesNothingBehind PROPERTIES RUN_SERIAL TRUE)
endif()

takes(78 5 Consumer.embedded)
takes(62 4 Cluster.WhatPeopleTypeWorks)
takes(53 1 Faults.SeveralInterfacesCarryOneJob)
takes(35 4 Cluster.JobsEnd)
takes(31 3 faults_test.EachFault)
takes(30 1 launch_test.Agents)
takes(29 4 Cluster.JobsKeepApart)
takes(22 5 Consumer.archives Consumer.trainer)
takes(20 1 launch_test.Ending)
takes(20 5 Python.examples)
takes(18 1 gpu_programs_test.GpuScript)
takes(15 2 network_test.Network)
takes(15 1 launch_test.Restarts)
takes(14 5 bench_scripts_test.Scripts failure_unit_test.FailureAgreement group_test.Ranks/CollectivesInWorldsOf.tcp
  gradients_test.Ranks/GradientsOf.tcp)
takes(12 1 Faults.ANameOrAddressThatMisleads net_test.Ranks/InWorldsOf)
takes(12 2 gpu_test.NcclFailure)
takes(12 5 Consumer.fetched gradients_test.Ranks/GradientsOf.shm large_test.Large.shm large_test.Large.tcp)
takes(11 2 Python.ending)
takes(11 4 Cluster.Startup)
takes(10 1 failure_test.Stall.shm failure_test.Stall.tcp net_test.ControlPlane)
takes(10 5 agenda_test.AgendaSimulation group_test.Ranks/CollectivesInWorldsOf.shm group_test.Ranks/InWorldsOf.shm
  group_test.Ranks/InWorldsOf.tcp Python.of_3_ranks)
takes(7 5 Consumer.installed failure_test.Ranks/InWorldsOf.shm failure_test.Ranks/InWorldsOf.tcp
  group_test.Of4/OddRank.tcp programs_test.Ranks/ProgramsInWorldsOf.shm programs_test.Ranks/ProgramsInWorldsOf.tcp)
takes(6 1 launch_test.LostHost launch_test.Output rendezvous_test.MeetingWithASecret)
takes(5 1 rendezvous_test.Rendezvous)
takes(5 5 fuzz_corpus_test.EachParser group_test.Of4/OddRank.shm plan_test.All/MutationTest Python.benchmark
  Python.of_2_ranks Python.packages Python.store tidy_test.Tidy)
takes(4 1 Faults.APartitionIsFoundOutOnBothSides failure_test.Of4/LateRank.shm failure_test.Of4/LateRank.tcp)
takes(4 2 gpu_test.Staged)
takes(4 5 Conformance.EveryTwoArgumentsMeet gpu_test.Ranks/StagedInWorldsOf group_test.Allreduce.shm
  group_test.Allreduce.tcp group_test.Ranks/AsyncInWorldsOf.tcp instructions_test.Instructions
  many_ranks_test.ManyRanks)
takes(3 1 launch_test.Terminal net_test.Handshake net_test.Secret rendezvous_test.Client)
takes(3 5 conformance_test.Cases group_test.Ranks/AsyncInWorldsOf.shm group_test.Ranks/GroupsInWorldsOf.shm
  group_test.Ranks/GroupsInWorldsOf.tcp Python.workers trainer_world_test.Training)
