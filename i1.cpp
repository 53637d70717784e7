#include <shardwise/shardwise.hpp>
