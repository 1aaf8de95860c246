//! The control channel between the caller and the setup stages: requests one way, events and descriptors the other.
//! The command never holds an end of it.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest packet. A command line that does not fit into one is refused.
const PACKET_BYTES: usize = 96 << 10;

/// The most descriptors in one packet.
const DESCRIPTORS: usize = 2;

/// Creates both ends, each close-on-exec.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends one packet with descriptors.
pub(crate) fn send<T: Serialize>(socket: impl AsFd, packet: &T, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let bytes = serde_json::to_vec(packet).map_err(io::Error::other)?;
    if bytes.len() > PACKET_BYTES {
        return Err(io::Error::other("the request is too long"));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for a packet"));
    }
    sendmsg(socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives the next packet, or `None` if the other side has closed its end.
pub(crate) fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; PACKET_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let received = loop {
        match recvmsg(&socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            // The other side closed its end with unread packets. The kernel reports that once, before the packets that
            // the other side sent, which may contain the reason.
            Err(rustix::io::Errno::CONNRESET | rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    };
    if received.flags.contains(ReturnFlags::TRUNC) {
        return Err(io::Error::other("a packet was too long"));
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let packet = serde_json::from_slice(&bytes[..received.bytes]).map_err(io::Error::other)?;
    Ok(Some((packet, descriptors)))
}

#[cfg(test)]
mod tests {
    use super::{PACKET_BYTES, pair, receive, send};
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;

    #[test]
    fn packets_and_descriptors_arrive_and_a_closed_end_is_detected() {
        let (here, there) = pair().expect("a pair");
        let file = File::open("/dev/zero").expect("the file");
        send(&here, &"one", &[file.as_fd()]).expect("sent");
        send(&here, &"x".repeat(PACKET_BYTES), &[]).expect_err("too long");
        drop(here);
        let (text, mut descriptors) = receive::<String>(&there).expect("received").expect("a packet");
        assert_eq!((text.as_str(), descriptors.len()), ("one", 1));
        let mut byte = [1];
        File::from(descriptors.remove(0)).read_exact(&mut byte).expect("readable");
        assert_eq!(byte, [0]);
        assert!(receive::<String>(&there).expect("received").is_none());
    }

    /// A stage that refused immediately left requests unread, and its reason was lost.
    #[test]
    fn the_last_packet_arrives_although_requests_were_unread() {
        let (here, there) = pair().expect("a pair");
        send(&here, &"unread", &[]).expect("sent");
        send(&there, &"last word", &[]).expect("sent");
        drop(there);
        let (text, _) = receive::<String>(&here).expect("received").expect("a packet");
        assert_eq!(text, "last word");
        assert!(receive::<String>(&here).expect("received").is_none());
    }
}
