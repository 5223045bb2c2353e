// The program's verbs, one .cc each. Every one returns the program's exit code and has told the
// user about a failure; none throws but std::bad_alloc.
#pragma once

#include "apps/kvant/options.h"
#include "apps/kvant/streams.h"

namespace kvant::app {

int run_verb(const RunOptions& options, Streams& streams);
int run_verb(const ChatOptions& options, Streams& streams);
int run_verb(const PlanOptions& options, Streams& streams);
int run_verb(const VerifyOptions& options, Streams& streams);
int run_verb(const EvalOptions& options, Streams& streams);
int run_verb(const InspectOptions& options, Streams& streams);
int run_verb(const BenchOptions& options, Streams& streams);

}  // namespace kvant::app
