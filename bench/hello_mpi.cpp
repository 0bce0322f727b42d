// anello-bench-hello-openmpi and -mpich: what anello-bench-hello does, by MPI.
#include <mpi.h>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
