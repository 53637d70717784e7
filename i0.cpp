#include <mpi.h>
#include <Eigen/Core>
