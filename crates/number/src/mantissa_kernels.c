/* The implementation of the kernels' header, as its own translation unit. */
#define MANTISSA_KERNELS_IMPLEMENTATION
#include "mantissa_kernels.h"
