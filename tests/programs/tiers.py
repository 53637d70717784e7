# SPDX-FileCopyrightText: 2026 The Shardwise developers
# SPDX-License-Identifier: Apache-2.0

import os


def all_tests():
    """Whether all combinations are tested, as where nobody says; with ALL_TESTS=0 each behaviour is once."""
    return os.environ.get("ALL_TESTS") != "0"
