//! Attempts to communicate.

use super::SucceedsFor::{AnyUser, Superuser, Untested};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack(
        "tcp to a listener on the machine",
        AnyUser,
        "peer = socket.create_connection(('127.0.0.1', @PORT@), 60)\nif peer.recv(100): escaped()",
    ),
    attack(
        "udp to a listener on the machine",
        AnyUser,
        "peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\npeer.settimeout(60)\n\
         peer.sendto(b'x', ('127.0.0.1', @DATAGRAM@))\nif peer.recv(100): escaped()",
    ),
    attack(
        "an address by name",
        Untested("not every machine has a resolver"),
        "escaped(socket.getaddrinfo('example.com', 80))",
    ),
    attack(
        "a direct DNS query",
        AnyUser,
        "peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\npeer.settimeout(60)\n\
         peer.connect(('127.0.0.1', @DATAGRAM@))\n\
         peer.send(bytes.fromhex('000101000001000000000000') + b'\\x07example\\x03com\\0\\0\\1\\0\\1')\n\
         if peer.recv(100): escaped()",
    ),
    attack(
        "listening to the network",
        AnyUser,
        "server = socket.socket()\nserver.bind(('0.0.0.0', 0))\nserver.listen()\nescaped()",
    ),
    attack("an IPv6 socket", AnyUser, "socket.socket(socket.AF_INET6)\nescaped()"),
    attack(
        "a unix socket by its path",
        AnyUser,
        "peer = socket.socket(socket.AF_UNIX)\npeer.connect('@SOCKET@')\nif peer.recv(5): escaped()",
    ),
    attack(
        "a unix socket through another process's root",
        AnyUser,
        "peer = socket.socket(socket.AF_UNIX)\npeer.connect('/proc/@TEST@/root@SOCKET@')\nif peer.recv(5): escaped()",
    ),
    attack(
        "an abstract unix socket",
        AnyUser,
        "peer = socket.socket(socket.AF_UNIX)\npeer.connect('\\0@ABSTRACT@')\nif peer.recv(5): escaped()",
    ),
    attack("netlink", AnyUser, "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\nescaped()"),
    attack("raw ICMP packets", Superuser, "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nescaped()"),
    attack("raw Ethernet packets", Superuser, "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)\nescaped()"),
    attack(
        "the host of a virtual machine",
        Untested("not every kernel has it"),
        "socket.socket(40, socket.SOCK_STREAM)\nescaped()",
    ),
    attack(
        "the kernel's ciphers",
        Untested("not every kernel has them"),
        "socket.socket(38, socket.SOCK_SEQPACKET)\nescaped()",
    ),
    attack("a pair of inet sockets", Untested("no kernel makes one"), "socket.socketpair(socket.AF_INET)\nescaped()"),
    attack(
        "switching the loopback interface on",
        Superuser,
        "some = socket.socket(socket.AF_UNIX)\nfcntl.ioctl(some, 0x8914, struct.pack('16sh14x', b'lo', 0x49))\nescaped()",
    ),
];
