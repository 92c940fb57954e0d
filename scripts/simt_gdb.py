"""gdb commands for kernels that run on the emulator. `gdb -x scripts/simt_gdb.py PROGRAM`, break in a kernel, then:

  simt threads   the CUDA threads of the blocks that run, by block, state and place
  simt bt N      backtrace of CUDA thread N (its number in its block), also while it waits in a barrier

They read the structures of core/src/gpu/state.h, which every build describes; a kernel's locals need preset dev.
"""
import gdb

SAVED = ["r15", "r14", "r13", "r12", "rbx", "rbp", "rip"]  # as fibre.cpp pushes them, last first


def elements(vector):
    begin, end = vector["_M_impl"]["_M_start"], vector["_M_impl"]["_M_finish"]
    return [(begin + i).dereference() for i in range(int(end - begin))]


def worker():
    try:
        pointer = gdb.parse_and_eval("'patchbay::gpu::emulator::worker'")  # quoted: a frame without debug information counts as C
    except gdb.error:  # no such symbol before libpatchbay_core is loaded, no thread-local variable before a thread runs
        raise gdb.GdbError("no kernel runs: give `run` first, and break in a kernel") from None
    if not int(pointer):
        raise gdb.GdbError("no kernel runs on this OS thread")
    return pointer.dereference()


def threads():
    """Block and thread, of all blocks that have not ended."""
    for owner in elements(worker()["blocks"]):
        block = owner.address.cast(owner.type.template_argument(0).pointer().pointer()).dereference().dereference()  # of a unique_ptr
        if int(block["live"]):
            for thread in elements(block["threads"]):
                yield block, thread


def is_current(thread):
    return int(thread.address) == int(worker()["current"])


def state(thread):
    if is_current(thread):
        return "running"
    if thread["done"]:
        return "ended"
    if not int(thread["fibre"]):
        return "not begun"
    if not int(thread["waits_in"]):
        return "ready"
    place = thread["site"]["file"].string().split("/")[-1]
    return "in %s at %s:%d" % (thread["waits_in"].string(), place, int(thread["site"]["line"]))


def show_threads():
    groups = {}
    for block, thread in threads():
        key = tuple(int(block["index"][axis]) for axis in "xyz") + (state(thread),)
        groups.setdefault(key, []).append(int(thread["rank"]))
    for (x, y, z, what), ranks in sorted(groups.items()):
        more = ",..." if len(ranks) > 12 else ""
        print("block (%d,%d,%d): %4d threads %s: %s%s" % (x, y, z, len(ranks), what, ",".join(map(str, ranks[:12])), more))


def show_backtrace(rank):
    found = [thread for _, thread in threads() if int(thread["rank"]) == rank]
    if not found:
        raise gdb.GdbError("no block that runs has a thread %d" % rank)
    thread = found[0]
    if is_current(thread):
        return gdb.execute("bt")
    if not int(thread["fibre"]):
        return print("CUDA thread %d is %s" % (rank, state(thread)))
    stack = int(thread["fibre"]["stack_pointer"])
    word = gdb.lookup_type("unsigned long").pointer()
    saved = [int(gdb.Value(stack + 8 * i).cast(word).dereference()) for i in range(len(SAVED))]
    keep = {name: int(gdb.parse_and_eval("(unsigned long)$" + name)) for name in SAVED + ["rsp"]}
    try:
        for name, value in zip(SAVED, saved):
            gdb.execute("set $%s = %d" % (name, value))
        gdb.execute("set $rsp = %d" % (stack + 8 * len(SAVED)))
        gdb.execute("bt")
    finally:
        for name, value in keep.items():
            gdb.execute("set $%s = %d" % (name, value))
        gdb.execute("frame 0", to_string=True)


class Simt(gdb.Command):
    """simt threads | simt bt N: the CUDA threads of the emulated kernel that runs."""

    def __init__(self):
        super().__init__("simt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        words = argument.split() or ["threads"]
        if words == ["threads"]:
            show_threads()
        elif len(words) == 2 and words[0] == "bt" and words[1].isdigit():
            show_backtrace(int(words[1]))
        else:
            raise gdb.GdbError("simt threads, or simt bt N")


Simt()
