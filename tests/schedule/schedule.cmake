# Read by CTest after all tests. takes(SECONDS FIFTHS TEST...): how long tests take on two cores, and which part of a
# place they need. Longer tests begin earlier. Tests that are not listed here take less than two seconds. A test that
# computes needs a whole place. A test that mostly waits needs a fifth of a place, so that other tests can compute
# meanwhile. tests/run.sh has one place more than the machine has cores.
function(takes seconds fifths)
  set_tests_properties(${ARGN} PROPERTIES COST ${seconds} PROCESSORS ${fifths})
endfunction()

# The soak checks how soon ranks receive errors, and what they leave behind. It takes two places. On two cores this
# leaves one place, so that the soak's ranks, and other tests, which have a lower priority, get their cores in time.
# CTest fills each place as soon as it becomes free, so two places are free together only at the beginning. Therefore
# the soak comes before longer tests.
execute_process(COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/../faults/undisturbed.sh RESULT_VARIABLE disturbed OUTPUT_QUIET
  ERROR_QUIET)
takes(1000 10 Soak.LeavesNothingBehind)
if(disturbed)
  set_tests_properties(Soak.LeavesNothingBehind PROPERTIES RUN_SERIAL TRUE)
endif()

takes(900 5 Conformance.EveryCase)
takes(100 5 Consumer.embedded)
takes(100 5 Clang)
takes(84 4 Cluster.WhatPeopleTypeWorks)
takes(100 5 Python.keras_2 Python.keras_3)
takes(79 4 Cluster.ProgramsMeet)
takes(69 5 Python.tensorflow_of_3_ranks)
takes(55 1 Faults.SeveralInterfacesCarryOneJob)
takes(54 5 Python.tensorflow_ending)
takes(48 3 Python.ending)
takes(46 5 Python.tensorflow_of_2_ranks)
takes(45 5 Python.elastic Python.elastic_horovod Python.elastic_tensorflow)
takes(44 4 Cluster.JobsEnd)
takes(39 5 Python.completer)
takes(35 3 faults_test.EachFault)
takes(35 5 Python.tensorflow_benchmark)
takes(35 4 Cluster.JobsKeepApart)
takes(33 1 launch_test.Agents)
takes(30 5 Python.examples Python.of_3_ranks)
takes(24 1 launch_test.Ending)
takes(22 5 Consumer.trainer)
takes(20 1 gpu_programs_test.GpuScript)
takes(20 2 launch_test.ElasticLaunch)
takes(19 5 Python.of_2_ranks tidy_test.Tidy)
takes(17 4 Cluster.Startup)
takes(17 5 Python.frameworks scheduler_faults_test.RandomFaults.shm scheduler_faults_test.RandomFaults.tcp)
takes(16 2 network_test.Network)
takes(12 5 Lint)
takes(16 5 gpu_test.Ranks/StagedInWorldsOf many_ranks_test.ManyRanks)
takes(15 1 elastic_job_test.ElasticJob elastic_job_test.ElasticJobInC launch_test.Restarts)
takes(15 3 bench_scripts_test.Scripts)
takes(15 5 group_test.Ranks/InWorldsOf.shm)
takes(14 1 gpu_test.NcclFailure)
takes(14 5 Python.gpus_of_3_ranks)
takes(13 1 net_test.Ranks/InWorldsOf)
takes(13 5 agenda_test.AgendaSimulation group_calls_test.Of/Blame.shm group_calls_test.Of/Blame.tcp
  programs_test.Ranks/ProgramsInWorldsOf.shm)
takes(12 1 Faults.ANameOrAddressThatMisleads)
takes(12 5 Consumer.archives)
takes(11 5 group_test.Ranks/InWorldsOf.tcp group_test.Ranks/ReproducibleIn.shm
  programs_test.Ranks/ProgramsInWorldsOf.tcp)
takes(10 1 failure_test.Stall.shm failure_test.Stall.tcp)
takes(10 5 group_test.Ranks/CollectivesInWorldsOf.shm group_test.Ranks/CollectivesInWorldsOf.tcp
  large_test.Large.tcp Python.one_process Python.tensorflow_alone)
takes(9 5 fuzz_corpus_test.EachParser)
takes(8 1 launch_test.ElasticEvents launch_test.Timeout)
takes(8 2 Faults.ACallThatFailsIsNamedOrDoesNoHarm)
takes(8 5 direct_collective_test.DirectCollective elastic_job_test.ElasticSimulation
  group_test.Ranks/ReproducibleIn.tcp Python.packages
  scheduler_test.Scheduler.shm scheduler_test.Scheduler.tcp scheduler_test.SchedulerCallbacks.shm
  scheduler_test.SchedulerCallbacks.tcp simulation_test.All/EveryAlgorithm trainer_world_test.Training)
takes(7 1 gpu_test.Staged control_test.ControlPlane)
takes(7 5 conformance_test.Cases group_calls_test.Ranks/AsyncInWorldsOf.shm
  group_calls_test.Ranks/AsyncInWorldsOf.tcp
  large_test.Large.shm Python.benchmark Python.gpus_of_2_ranks simulation_test.All/ScalingBy)
takes(6 1 gpu_test.NamedCallsEnd launch_test.LostHost launch_test.Output)
takes(6 5 failure_unit_test.FailureAgreement Python.beside_of_2_ranks Python.beside_of_3_ranks Python.store)
takes(5 1 launch_test.StoppedAgent control_test.ControlPlaneLeaving rendezvous_test.Rendezvous)
takes(5 2 rendezvous_test.HandStart)
takes(5 5 arguments_test.InWorlds/Sound Conformance.EveryThreeArgumentsMeet Conformance.LargeWorlds
  Conformance.EveryTwoArgumentsMeet Consumer.fetched Consumer.installed
  group_test.Allreduce.shm instructions_test.Instructions scarcity_test.Scarcity.shm scarcity_test.Scarcity.tcp)
takes(4 1 failure_test.Of/Refusal.shm failure_test.Of/Refusal.tcp failure_test.Of4/LateRank.shm
  failure_test.Of4/LateRank.tcp Faults.APartitionIsFoundOutOnBothSides
  group_calls_test.Of4/OddRank.shm group_calls_test.Of4/OddRank.tcp
  launch_test.Terminal rendezvous_test.MeetingWithASecret)
takes(4 2 rendezvous_test.Uncaught)
takes(4 5 gpu_programs_test.GpuPrograms group_test.Allreduce.tcp group_test.SharedTensors.shm
  plan_test.All/MutationTest)
takes(3 1 faults_test.ProxyDelay faults_test.Siege net_test.Handshake net_test.Secret rendezvous_test.Client
  scheduler_faults_test.SchedulerFaults.shm scheduler_faults_test.SchedulerFaults.tcp start_test.Start)
takes(3 5 failure_test.Ranks/InWorldsOf.shm failure_test.Ranks/InWorldsOf.tcp
  group_calls_test.Ranks/GroupsInWorldsOf.shm
  group_calls_test.Ranks/GroupsInWorldsOf.tcp plan_test.World/EveryPlan scheduler_test.Ranks/SchedulerInWorldsOf.shm
  scheduler_test.Ranks/SchedulerInWorldsOf.tcp shm_test.BytePipe simulation_test.Simulation Python.workers)
