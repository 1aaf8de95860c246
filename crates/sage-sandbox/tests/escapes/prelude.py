"""The prelude of every attack. An attack prints ESCAPED if it succeeds and BLOCKED if it does not."""
import ctypes, errno, fcntl, glob, json, mmap, os, resource, signal, socket, stat, struct, sys, time

NUMBERS = {}
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
libc = ctypes.CDLL(None, use_errno=True)
output = os.environ['SAGE_OUTPUT']
rows = json.load(open(os.environ['SAGE_CONTEXT']))['rows']


def finish(word, what):
    os.write(1, f'{word} {what}\n'.encode())
    os._exit(0)


def escaped(what=''):
    finish('ESCAPED', what)


def blocked(what):
    finish('BLOCKED', what)


def call(name, *arguments):
    """Makes a system call by name; returns its result and its error."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *[ctypes.c_long(value) for value in arguments])
    return result, ctypes.get_errno()


def reaches_kernel(name, *arguments):
    """Whether the kernel evaluates the arguments, which are invalid so that the call has no effect."""
    result, error = call(name, *arguments)
    if result < 0 and error in REFUSED:
        blocked(errno.errorcode[error])
    escaped(errno.errorcode.get(error, result))


def read(path):
    with open(path, 'rb') as file:
        return file.read()


try:
    BODY
except (OSError, MemoryError, ValueError) as error:
    blocked(repr(error))
blocked('no effect')
