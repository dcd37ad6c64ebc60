// How decode attention spreads the cells of a token over blocks.
#pragma once
#include "common.cuh"

#define TILE 64          // cells between two barriers

// Cells of a split: whole tiles, as few as n_splits splits need.
__device__ __forceinline__ int cells_of_split(int n_kv, int n_splits) {
    const int cells = (n_kv + n_splits - 1) / n_splits;
    return max((cells + TILE - 1) / TILE, 1) * TILE;
}

// Splits that have cells; the others leave nothing behind.
__device__ __forceinline__ int splits_with_cells(int n_kv, int n_splits) {
    const int size = cells_of_split(n_kv, n_splits);
    return (n_kv + size - 1) / size;
}
