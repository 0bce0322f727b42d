// Python's signals while a kernel waits on Python's own thread: Ctrl-C must end the wait.
#pragma once

namespace anello::tensorflow {

// Lets Python handle the signals that have arrived, as Python does between two of its instructions. Returns true if a
// handler has raised an exception; the exception is kept until Python fetches it. Returns false on all threads except
// the first thread of the process, and in a process without Python. The caller must not hold Python's global lock.
bool interrupted();
// Drops the exception that interrupted() has kept for this thread, if there is one. The caller holds Python's global
// lock.
void forget_interruption();

}  // namespace anello::tensorflow
