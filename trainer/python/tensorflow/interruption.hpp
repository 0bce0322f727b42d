// Python's signals while a kernel waits on Python's own thread: Ctrl-C must end the wait.
#pragma once

namespace anello::tensorflow {

// Lets Python handle the signals that have come, as it does between two of its instructions. Returns true if a handler
// has raised an exception, which is kept until Python fetches it. Returns false on other threads than the process's
// first one, and in a process without Python. The caller must not hold Python's global lock.
bool interrupted();
// Lets go of what interrupted() has kept for this thread, if anything. The caller holds Python's global lock.
void forget_interruption();

}  // namespace anello::tensorflow
