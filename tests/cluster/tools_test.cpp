// Tests that the programs that make the cluster, or are tested there, exist. Otherwise the tests could pass because
// such a program is missing. They are skipped only for a user who may not make namespaces.
#include <gmock/gmock.h>

#include "tests/cluster/hosts.hpp"

namespace anello::cluster {
namespace {

using ::testing::HasSubstr;

// Runs the script in a new shell, after `before`.
testing::Outcome cluster_after(const std::string& before) {
  return testing::run(
      {"unshare", "--mount", "bash", "-c", before + " bash " + in_tree("tests/cluster/cluster.sh") + " /nowhere true"},
      {.environment = {"CLUSTER"}});
}

TEST(Tools, OneThatIsMissingIsAFailure) {
  for (const std::string tool : {"srun", "sbatch", "salloc", "slurmctld", "munged", "sshd", "mpirun.openmpi",
                                 "mpiexec.mpich", "qsub", "sge_execd", "torchrun"}) {
    const testing::Outcome outcome = cluster_after("mount --bind /dev/null \"$(command -v " + tool + ")\";");
    EXPECT_EQ(outcome.code, 2) << tool;
    EXPECT_THAT(outcome.err, HasSubstr("' is missing (see test_packages")) << tool;
  }
}

TEST(Tools, MissingPrivilegesSkip) {
  EXPECT_EQ(cluster_after("setpriv --reuid=5077 --regid=5077 --clear-groups").code, 77);
  EXPECT_EQ(cluster_after("setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin").code, 77);
}

}  // namespace
}  // namespace anello::cluster
