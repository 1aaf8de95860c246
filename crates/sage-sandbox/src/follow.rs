//! The caller's side of a run: reads what comes out of the box, holds it to its limits, and takes care that the
//! box is empty at the end, however it came to it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::channel;
use crate::limits::{Limit, Limits};
use crate::messages::Lines;
use crate::order::{Answer, How, MARKER, Orders, Task};
use crate::output::Output;
use crate::printed::Tail;
use crate::report::{Ending, Exit, Report, RunError, Walls};
use crate::run::Watch;

/// How long closing the box may take, and emptying it. Both take some hundredths of a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often the caller is asked whether it still wants the command.
const TICK: Duration = Duration::from_millis(100);

/// No command runs longer, whatever its limit.
const FOR_EVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// The most that is read at the end, when only a command without walls can still be writing.
const LAST_READS: usize = 64;

/// A run that is under way.
pub(crate) struct Following {
    child: Child,
    ended: OwnedFd,
    control: Option<OwnedFd>,
    /// Standard output and standard error, as long as they are open.
    printed: [Option<File>; 2],
    tails: [Tail; 2],
    messages: Option<File>,
    lines: Lines,
    output: Option<OwnedFd>,
    walls: Option<Walls>,
    task: Task,
    limits: Limits,
    begun: Instant,
    /// Until when the box must be closed, and then until when the command must have ended.
    deadline: Instant,
    emptied: bool,
}

impl Following {
    pub(crate) fn start(program: &Path, orders: &Orders) -> Result<Self, RunError> {
        let (here, there) = channel::pair()?;
        // Whoever does not read the orders is no stage of ours; we do not wait for it.
        set_socket_timeout(&here, Timeout::Send, Some(PATIENCE))?;
        let (stage, packets) = if orders.task == Task::Bare { ("bare", 1) } else { ("outer", 3) };
        let mut command = Command::new(program);
        command.arg(MARKER).arg(stage).env_clear();
        command.stdin(there).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        drop(command);
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let printed = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        for pipe in printed.iter().flatten() {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let begun = Instant::now();
        let tail = Tail::with_room(orders.limits.tail_bytes);
        let following = Self {
            child,
            ended,
            control: Some(here),
            printed: printed.map(|pipe| pipe.map(File::from)),
            tails: [tail.clone(), tail],
            messages: None,
            lines: Lines::with_room(orders.limits.message_line_bytes),
            output: None,
            walls: None,
            task: orders.task,
            limits: orders.limits.clone(),
            begun,
            deadline: begun + PATIENCE,
            emptied: false,
        };
        for _ in 0..packets {
            let sent = channel::send(following.control.as_ref().ok_or(RunError::NoAnswer)?, orders, &[]);
            // A stage that goes away early says why.
            match sent {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                other => other?,
            }
        }
        Ok(following)
    }

    /// What a box without walls does not tell us.
    pub(crate) fn without_walls(&mut self, allowed_by: &str, messages: OwnedFd, output: OwnedFd) {
        self.walls = Some(Walls::None { allowed_by: allowed_by.to_owned() });
        self.messages = Some(File::from(messages));
        self.output = Some(output);
    }

    pub(crate) fn walls(&self) -> Option<Walls> {
        self.walls.clone()
    }

    /// Until the command ends or has to.
    pub(crate) fn follow(&mut self, watch: &mut (impl Watch + ?Sized)) -> Result<Ending, RunError> {
        let mut started = false;
        loop {
            if watch.stop() {
                return Ok(Ending::Stopped);
            }
            if Instant::now() >= self.deadline {
                return if started { Ok(Ending::Limit(Limit::Time)) } else { Err(RunError::NoAnswer) };
            }
            let ready = self.wait()?;
            if let Some(limit) = self.read_all(watch)? {
                return Ok(Ending::Limit(limit));
            }
            if ready.control {
                match self.answer()? {
                    Some(Answer::Started { landlock }) => {
                        started = true;
                        self.walls.get_or_insert(Walls::Closed { landlock });
                        self.deadline = Instant::now() + self.limits.time.min(FOR_EVER);
                    }
                    Some(Answer::Ended(how)) if started => return Ok(ending(how)),
                    Some(Answer::Refused { step, reason }) => return Err(RunError::Refused { step, reason }),
                    _ => {}
                }
            } else if ready.ended {
                return self.end_without_answer(started);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut watched = vec![PollFd::new(&self.ended, PollFlags::IN)];
        let control = self.control.as_ref();
        watched.extend(control.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)));
        let files = self.printed.iter().flatten().chain(&self.messages);
        watched.extend(files.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)));
        let time = self.deadline.saturating_duration_since(Instant::now()).min(TICK);
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut watched, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| watched.get(index).is_some_and(|one| !one.revents().is_empty());
        Ok(Ready { ended: ready(0), control: control.is_some() && ready(1) })
    }

    fn answer(&mut self) -> Result<Option<Answer>, RunError> {
        let Some(control) = &self.control else { return Ok(None) };
        let Some((answer, descriptors)) = channel::receive::<Answer>(control)? else {
            // All other ends are closed. Without walls that is the command's start; else the box has gone.
            self.control = None;
            return Ok(None);
        };
        if answer == Answer::Built {
            let mut descriptors = descriptors.into_iter();
            self.messages = descriptors.next().map(File::from);
            self.output = descriptors.next();
        }
        Ok(Some(answer))
    }

    /// Reads once from everything that has something; tells which limit that went over.
    fn read_all(&mut self, watch: &mut (impl Watch + ?Sized)) -> io::Result<Option<Limit>> {
        let mut buffer = [0; 32 << 10];
        for (pipe, tail) in self.printed.iter_mut().zip(&mut self.tails) {
            let read = pipe.as_mut().map_or(Ok(None), |pipe| read_some(pipe, &mut buffer))?;
            match read {
                Some(0) => *pipe = None,
                Some(bytes) => tail.push(&buffer[..bytes]),
                None => {}
            }
            if tail.total() > self.limits.printed_bytes {
                return Ok(Some(Limit::Printed));
            }
        }
        if let Some(pipe) = &mut self.messages
            && let Some(bytes) = read_some(pipe, &mut buffer)?
        {
            self.lines.push(&buffer[..bytes], |line| watch.message(line));
            if self.lines.total > self.limits.message_bytes {
                return Ok(Some(Limit::Messages));
            }
        }
        Ok(None)
    }

    /// The process that we started has ended, and nothing more will come through the channel.
    fn end_without_answer(&mut self, started: bool) -> Result<Ending, RunError> {
        if self.control.is_some() && self.task != Task::Bare {
            // The poll saw it end before it saw the last packet.
            return match self.answer()? {
                Some(Answer::Ended(how)) if started => Ok(ending(how)),
                Some(Answer::Refused { step, reason }) => Err(RunError::Refused { step, reason }),
                _ if started => Ok(Ending::Signal(Signal::KILL.as_raw())),
                _ => Err(RunError::NoAnswer),
            };
        }
        if !started {
            return Err(RunError::NoAnswer);
        }
        if self.task != Task::Bare {
            return Ok(Ending::Signal(Signal::KILL.as_raw()));
        }
        let status = self.child.wait()?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
        Ok(ending(signal.map_or(How::Code(code), How::Signal)))
    }

    /// Empties the box, then reads what is left in the pipes.
    pub(crate) fn report(mut self, ending: Ending, watch: &mut dyn Watch) -> Result<Report, RunError> {
        self.empty();
        for _ in 0..LAST_READS {
            let before = (self.tails[0].total(), self.tails[1].total(), self.lines.total);
            let over = self.read_all(watch)?.is_some();
            if over || before == (self.tails[0].total(), self.tails[1].total(), self.lines.total) {
                break;
            }
        }
        self.lines.finish(|line| watch.message(line));
        let output = self.output.take().ok_or(RunError::NoAnswer)?;
        let [standard_output, standard_error] = std::mem::take(&mut self.tails);
        Ok(Report {
            ending,
            walls: self.walls().ok_or(RunError::NoAnswer)?,
            output: Output::new(output, &self.limits),
            standard_output,
            standard_error,
            messages: self.lines.handed_on,
            messages_left_out: self.lines.left_out,
            time: self.begun.elapsed(),
        })
    }

    /// Ends everything that was started. Closing the channel ends the first process of the box, the kernel ends the
    /// others, and then the process that we started ends, which is what we wait for.
    fn empty(&mut self) {
        if std::mem::replace(&mut self.emptied, true) {
            return;
        }
        self.control = None;
        if self.task == Task::Bare {
            // It may have gone by itself.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        } else {
            let mut watched = [PollFd::new(&self.ended, PollFlags::IN)];
            let patience = Timespec { tv_sec: 20, tv_nsec: 0 };
            let _ = poll(&mut watched, Some(&patience));
        }
        // It has ended, or does not answer; its death then kills the box.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.empty();
    }
}

struct Ready {
    ended: bool,
    control: bool,
}

/// How many bytes there were; nothing if there are none now.
fn read_some(file: &mut File, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match file.read(buffer) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

fn ending(how: How) -> Ending {
    match how {
        How::Code(code) => Ending::Exit(Exit::from_code(code)),
        How::Memory => Ending::Limit(Limit::Memory),
        How::Signal(signal) if signal == Signal::XFSZ.as_raw() => Ending::Limit(Limit::FileBytes),
        How::Signal(signal) if signal == Signal::XCPU.as_raw() => Ending::Limit(Limit::ProcessorTime),
        How::Signal(signal) => Ending::Signal(signal),
    }
}
