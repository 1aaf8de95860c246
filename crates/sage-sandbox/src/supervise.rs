//! The caller's side of a run: reads the output of the sandbox, enforces its limits, and guarantees that no process is
//! left at the end, however the run ended.

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
use crate::command::Observer;
use crate::limits::{Limit, Limits};
use crate::messages::Lines;
use crate::output::Output;
use crate::protocol::{ExitCause, MARKER, StageEvent, StageRequest, Task};
use crate::report::{Ending, Exit, Isolation, Report, RunError};
use crate::tail::Tail;

/// How long setting up and terminating the sandbox may take. Both normally take some hundredths of a second.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// How often the observer is polled whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The upper bound on every time limit.
const LONGEST_TIME: Duration = Duration::from_secs(366 * 24 * 3600);

/// The most reads at the end, when only a command without isolation can still be writing.
const LAST_READS: usize = 64;

/// A run in progress.
pub(crate) struct SupervisedRun {
    child: Child,
    ended: OwnedFd,
    control: Option<OwnedFd>,
    /// Standard output and standard error, while they are open.
    printed: [Option<File>; 2],
    tails: [Tail; 2],
    messages: Option<File>,
    lines: Lines,
    output: Option<OwnedFd>,
    isolation: Option<Isolation>,
    task: Task,
    limits: Limits,
    started_at: Instant,
    /// The deadline for setting up the sandbox, and after that for the command to end.
    deadline: Instant,
    terminated: bool,
}

impl SupervisedRun {
    pub(crate) fn start(program: &Path, request: &StageRequest) -> Result<Self, RunError> {
        let (here, there) = channel::pair()?;
        // A program that does not read the request is not a stage; do not wait for it.
        set_socket_timeout(&here, Timeout::Send, Some(SETUP_TIMEOUT))?;
        let (stage, packets) = if request.task == Task::Unisolated { ("unisolated", 1) } else { ("outer", 3) };
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
        let started_at = Instant::now();
        let tail = Tail::with_capacity(request.limits.tail_bytes);
        let run = Self {
            child,
            ended,
            control: Some(here),
            printed: printed.map(|pipe| pipe.map(File::from)),
            tails: [tail.clone(), tail],
            messages: None,
            lines: Lines::with_line_limit(request.limits.message_line_bytes),
            output: None,
            isolation: None,
            task: request.task,
            limits: request.limits.clone(),
            started_at,
            deadline: started_at + SETUP_TIMEOUT,
            terminated: false,
        };
        for _ in 0..packets {
            let sent = channel::send(run.control.as_ref().ok_or(RunError::NoResponse)?, request, &[]);
            // A stage that exits early has reported why.
            match sent {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
                other => other?,
            }
        }
        Ok(run)
    }

    /// Sets what the stages do not report in a run without isolation.
    pub(crate) fn set_unisolated(&mut self, allowed_by: &str, messages: OwnedFd, output: OwnedFd) {
        self.isolation = Some(Isolation::None { allowed_by: allowed_by.to_owned() });
        self.messages = Some(File::from(messages));
        self.output = Some(output);
    }

    pub(crate) fn isolation(&self) -> Option<Isolation> {
        self.isolation.clone()
    }

    /// Supervises the command until it ends or has to be stopped.
    pub(crate) fn follow(&mut self, observer: &mut (impl Observer + ?Sized)) -> Result<Ending, RunError> {
        let mut started = false;
        loop {
            if observer.should_stop() {
                return Ok(Ending::Stopped);
            }
            if Instant::now() >= self.deadline {
                return if started { Ok(Ending::Limit(Limit::Time)) } else { Err(RunError::NoResponse) };
            }
            let ready = self.wait()?;
            if let Some(limit) = self.read_all(observer)? {
                return Ok(Ending::Limit(limit));
            }
            if ready.control {
                match self.next_event()? {
                    Some(StageEvent::Started { landlock }) => {
                        started = true;
                        self.isolation.get_or_insert(Isolation::Full { landlock });
                        self.deadline = Instant::now() + self.limits.time.min(LONGEST_TIME);
                    }
                    Some(StageEvent::Ended(cause)) if started => return Ok(ending(cause)),
                    Some(StageEvent::Refused { step, reason }) => return Err(RunError::Refused { step, reason }),
                    _ => {}
                }
            } else if ready.ended {
                return self.end_without_event(started);
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        let mut polled = vec![PollFd::new(&self.ended, PollFlags::IN)];
        let control = self.control.as_ref();
        polled.extend(control.map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)));
        let files = self.printed.iter().flatten().chain(&self.messages);
        polled.extend(files.map(|file| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)));
        let time = self.deadline.saturating_duration_since(Instant::now()).min(POLL_INTERVAL);
        let time = Timespec::try_from(time).map_err(io::Error::other)?;
        match poll(&mut polled, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |index: usize| polled.get(index).is_some_and(|one| !one.revents().is_empty());
        Ok(Ready { ended: ready(0), control: control.is_some() && ready(1) })
    }

    fn next_event(&mut self) -> Result<Option<StageEvent>, RunError> {
        let Some(control) = &self.control else { return Ok(None) };
        let Some((event, descriptors)) = channel::receive::<StageEvent>(control)? else {
            // All other ends are closed. Without isolation the command has started; otherwise the sandbox has ended.
            self.control = None;
            return Ok(None);
        };
        if event == StageEvent::Built {
            let mut descriptors = descriptors.into_iter();
            self.messages = descriptors.next().map(File::from);
            self.output = descriptors.next();
        }
        Ok(Some(event))
    }

    /// Reads once from every pipe that has data; returns the limit that was exceeded, if any.
    fn read_all(&mut self, observer: &mut (impl Observer + ?Sized)) -> io::Result<Option<Limit>> {
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
            self.lines.push(&buffer[..bytes], |line| observer.message(line));
            if self.lines.total > self.limits.message_bytes {
                return Ok(Some(Limit::Messages));
            }
        }
        Ok(None)
    }

    /// The started process has ended, so no more events will arrive.
    fn end_without_event(&mut self, started: bool) -> Result<Ending, RunError> {
        if self.control.is_some() && self.task != Task::Unisolated {
            // The poll reported the end before the last packet.
            return match self.next_event()? {
                Some(StageEvent::Ended(cause)) if started => Ok(ending(cause)),
                Some(StageEvent::Refused { step, reason }) => Err(RunError::Refused { step, reason }),
                _ if started => Ok(Ending::Signal(Signal::KILL.as_raw())),
                _ => Err(RunError::NoResponse),
            };
        }
        if !started {
            return Err(RunError::NoResponse);
        }
        if self.task != Task::Unisolated {
            return Ok(Ending::Signal(Signal::KILL.as_raw()));
        }
        let status = self.child.wait()?;
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX);
        Ok(ending(signal.map_or(ExitCause::Code(code), ExitCause::Signal)))
    }

    /// Terminates the sandbox, then reads the rest of the pipes.
    pub(crate) fn report(mut self, ending: Ending, observer: &mut dyn Observer) -> Result<Report, RunError> {
        self.terminate();
        for _ in 0..LAST_READS {
            let before = (self.tails[0].total(), self.tails[1].total(), self.lines.total);
            let over = self.read_all(observer)?.is_some();
            if over || before == (self.tails[0].total(), self.tails[1].total(), self.lines.total) {
                break;
            }
        }
        self.lines.finish(|line| observer.message(line));
        let output = self.output.take().ok_or(RunError::NoResponse)?;
        let [standard_output, standard_error] = std::mem::take(&mut self.tails);
        Ok(Report {
            ending,
            isolation: self.isolation().ok_or(RunError::NoResponse)?,
            output: Output::new(output, &self.limits),
            standard_output,
            standard_error,
            messages: self.lines.delivered,
            messages_dropped: self.lines.dropped,
            time: self.started_at.elapsed(),
        })
    }

    /// Ends all processes of the run. Closing the channel ends the init process, the kernel then kills all others of the
    /// sandbox, and finally the started process ends, which is awaited here.
    fn terminate(&mut self) {
        if std::mem::replace(&mut self.terminated, true) {
            return;
        }
        self.control = None;
        if self.task == Task::Unisolated {
            // The command may have ended already.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        } else {
            let mut polled = [PollFd::new(&self.ended, PollFlags::IN)];
            let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
            let _ = poll(&mut polled, Some(&timeout));
        }
        // The process has ended, or does not respond; killing it kills the sandbox.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for SupervisedRun {
    fn drop(&mut self) {
        self.terminate();
    }
}

struct Ready {
    ended: bool,
    control: bool,
}

/// Reads some bytes; returns `None` if there are none now.
fn read_some(file: &mut File, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    match file.read(buffer) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}

fn ending(cause: ExitCause) -> Ending {
    match cause {
        ExitCause::Code(code) => Ending::Exit(Exit::from_code(code)),
        ExitCause::Memory => Ending::Limit(Limit::Memory),
        ExitCause::Signal(signal) if signal == Signal::XFSZ.as_raw() => Ending::Limit(Limit::FileBytes),
        ExitCause::Signal(signal) if signal == Signal::XCPU.as_raw() => Ending::Limit(Limit::ProcessorTime),
        ExitCause::Signal(signal) => Ending::Signal(signal),
    }
}
