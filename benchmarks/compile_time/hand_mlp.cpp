// SPDX-FileCopyrightText: 2026 The Shardwise developers
// SPDX-License-Identifier: Apache-2.0

/// @file
/// The job of user_mlp.cpp written by hand, with MPI and Eigen alone.

#include <mpi.h>

#include <Eigen/Core>
#include <cmath>
#include <cstdio>
#include <random>

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Row = Eigen::RowVectorXf;

namespace {

Matrix uniform(Eigen::Index rows, Eigen::Index cols, float bound, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> draw(-bound, bound);
  return Matrix::NullaryExpr(rows, cols, [&] { return draw(generator); });
}

float probability(float x) { return 0.5f * std::erfc(-x * 0.70710678f); }
float gelu(float x) { return x * probability(x); }
float gelu_slope(float x) { return probability(x) + x * 0.39894228f * std::exp(-0.5f * x * x); }

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int ranks = 1, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Eigen::Index tokens = 2048, features = 1024, hidden = 4096 / ranks;
  const float rate = 0.1f;
  const auto seed = static_cast<unsigned>(rank);
  Matrix w1 = uniform(hidden, features, 1 / 32.f, seed), w2 = uniform(features, hidden, 1 / 64.f, seed + 100);
  Row b1 = uniform(1, hidden, 1 / 32.f, seed + 200), b2 = uniform(1, features, 1 / 64.f, 300);
  const Matrix x = uniform(tokens, features, 1, 400), target = uniform(tokens, features, 1, 500);
  Matrix h(tokens, hidden), a(tokens, hidden), y(tokens, features), dh(tokens, hidden);
  Matrix dw1(hidden, features), dw2(features, hidden);
  for (int step = 1; step <= 10; ++step) {
    h.noalias() = x * w1.transpose();
    h.rowwise() += b1;
    a = h.unaryExpr(&gelu);
    y.noalias() = a * w2.transpose();
    MPI_Allreduce(MPI_IN_PLACE, y.data(), static_cast<int>(y.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    y.rowwise() += b2;
    y -= target;
    const float loss = y.squaredNorm() / static_cast<float>(y.size());
    y *= 2 / static_cast<float>(y.size());
    dw2.noalias() = y.transpose() * a;
    dh.noalias() = y * w2;
    dh.array() *= h.unaryExpr(&gelu_slope).array();
    dw1.noalias() = dh.transpose() * x;
    w1 -= rate * dw1;
    w2 -= rate * dw2;
    b1 -= rate * dh.colwise().sum();
    b2 -= rate * y.colwise().sum();
    if (rank == 0) std::printf("step %d: loss %f\n", step, static_cast<double>(loss));
  }
  MPI_Finalize();
}
