// anello-bench-hello-openmpi, anello-bench-hello-mpich and those of the MPIs of peers.sh: do the same as
// anello-bench-hello (hello.cpp), through MPI.
#include <mpi.h>

int main(int count, char** words) {
  MPI_Init(&count, &words);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Finalize();
}
