#include "valkey.h"
