"""What every attack begins with. An attack says ESCAPED if it came through and HELD if it did not."""
import ctypes, errno, fcntl, glob, json, mmap, os, resource, signal, socket, stat, struct, sys, time

NUMBERS = {}
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS)
libc = ctypes.CDLL(None, use_errno=True)
output = os.environ['SAGE_OUTPUT']
rows = json.load(open(os.environ['SAGE_CONTEXT']))['rows']


def say(word, what):
    os.write(1, f'{word} {what}\n'.encode())
    os._exit(0)


def escaped(what=''):
    say('ESCAPED', what)


def held(what):
    say('HELD', what)


def call(name, *arguments):
    """A system call by its name: its result and its error."""
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(NUMBERS[name]), *[ctypes.c_long(value) for value in arguments])
    return result, ctypes.get_errno()


def taken(name, *arguments):
    """Whether the kernel as much as looks at the arguments, which are chosen so that nothing comes of it."""
    result, error = call(name, *arguments)
    if result < 0 and error in REFUSED:
        held(errno.errorcode[error])
    escaped(errno.errorcode.get(error, result))


def read(path):
    with open(path, 'rb') as file:
        return file.read()


try:
    BODY
except (OSError, MemoryError, ValueError) as error:
    held(repr(error))
held('nothing came of it')
