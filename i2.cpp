#include <shardwise/optim/clip.hpp>
