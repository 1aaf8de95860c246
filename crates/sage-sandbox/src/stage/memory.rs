//! The total memory of all processes of the sandbox.
//!
//! The kernel enforces the limit per process. A control group could enforce the total, but creating one needs
//! privileges that an ordinary user usually lacks, so the total is polled.

use std::fs;

/// Whether the total is above the limit. Shared pages are counted once, which is slow to compute, so it is done only if
/// the sum of the resident sizes is above the limit.
pub(super) fn exceeds(limit: u64) -> bool {
    let processes = processes();
    let sum = |measure: fn(u32) -> Option<u64>| {
        processes.iter().filter_map(|process| measure(*process)).fold(0, u64::saturating_add)
    };
    sum(resident) > limit && sum(|process| proportional_size(process).or_else(|| resident(process))) > limit
}

/// All processes of the sandbox except init.
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

fn proportional_size(process: u32) -> Option<u64> {
    parse_proportional(&fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?)
}

fn parse_proportional(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::{parse_proportional, processes, proportional_size, resident};

    #[test]
    fn the_kernels_reports_are_parsed() {
        assert_eq!(parse_proportional("Rss:    12 kB\nPss:    3 kB\nPss_Dirty:  1 kB\n"), Some(3072));
        assert_eq!(parse_proportional("Rss: 12 kB\n"), None);
        let this = std::process::id();
        assert!(processes().contains(&this));
        let (resident, proportional) =
            (resident(this).expect("resident"), proportional_size(this).expect("proportional size"));
        assert!(proportional > 100_000 && proportional < resident + (8 << 20), "{proportional} of {resident}");
    }
}
