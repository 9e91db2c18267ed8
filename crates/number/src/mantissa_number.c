/* The implementation of the header, as its own translation unit. */
#define MANTISSA_NUMBER_IMPLEMENTATION
#include "mantissa_number.h"
