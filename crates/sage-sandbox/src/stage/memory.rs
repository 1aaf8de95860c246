//! How much memory the processes of the box use together.
//!
//! The kernel holds each process to the limit by itself. A control group would hold their sum, but making one
//! needs rights that an ordinary user mostly lacks; so the sum is looked at from time to time.

use std::fs;

/// Whether the sum is above the limit. Pages that processes share are counted once, but that is slow to find
/// out, so it is asked only when it matters.
pub(super) fn is_over(limit: u64) -> bool {
    let processes = processes();
    let sum = |measure: fn(u32) -> Option<u64>| {
        processes.iter().filter_map(|process| measure(*process)).fold(0, u64::saturating_add)
    };
    sum(resident) > limit && sum(|process| share(process).or_else(|| resident(process))) > limit
}

/// All processes of the box but its first.
fn processes() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number != 1).collect()
}

fn resident(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}

fn share(process: u32) -> Option<u64> {
    proportional(&fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?)
}

fn proportional(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::{processes, proportional, resident, share};

    #[test]
    fn the_kernels_words_are_understood() {
        assert_eq!(proportional("Rss:    12 kB\nPss:    3 kB\nPss_Dirty:  1 kB\n"), Some(3072));
        assert_eq!(proportional("Rss: 12 kB\n"), None);
        let this = std::process::id();
        assert!(processes().contains(&this));
        let (resident, share) = (resident(this).expect("resident"), share(this).expect("share"));
        assert!(share > 100_000 && share < resident + (8 << 20), "{share} of {resident}");
    }
}
