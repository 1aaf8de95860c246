//! One resource of one block: what is free, reserved and used.
//!
//! When budget is handed out, every waiting pipeline gets an equal part, and the longest-waiting ones get the
//! remainder. An earlier pipeline therefore never has less than a later one, and the reservations are a decreasing step
//! function of the order of arrival. It is stored as its steps: each is an amount that all pipelines up to one have.

use super::PipelineId;

/// One resource of one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    capacity: u64,
    free: u64,
    /// The total allocation of waiting pipelines.
    reserved: u64,
    /// What waiting pipelines have used of it.
    used: u64,
    /// What departed pipelines have used.
    departed: u64,
    /// The steps, in the order of their pipelines, each of which waits.
    steps: Vec<(PipelineId, u64)>,
    /// Amounts of single pipelines in addition to the steps, in their order: retained through a loan, or refunded after
    /// one.
    extras: Vec<(PipelineId, u64)>,
}

/// An iterator over reservations.
pub(super) struct Walk<'pool> {
    /// The sum of the remaining steps.
    even: u64,
    steps: &'pool [(PipelineId, u64)],
    extras: &'pool [(PipelineId, u64)],
}

impl Walk<'_> {
    /// The reservation of a pipeline; calls must be in order of arrival.
    pub(super) fn reserved_for(&mut self, pipeline: PipelineId) -> u64 {
        while let [(last, amount), rest @ ..] = self.steps
            && *last < pipeline
        {
            (self.even, self.steps) = (self.even - amount, rest);
        }
        while let [(own, _), rest @ ..] = self.extras
            && *own < pipeline
        {
            self.extras = rest;
        }
        self.even + self.extras.first().filter(|(own, _)| *own == pipeline).map_or(0, |(_, amount)| *amount)
    }
}

impl Pool {
    pub(super) const fn new(capacity: u64) -> Self {
        Self { capacity, free: capacity, reserved: 0, used: 0, departed: 0, steps: Vec::new(), extras: Vec::new() }
    }

    pub(super) const fn capacity(&self) -> u64 {
        self.capacity
    }

    pub(super) const fn free(&self) -> u64 {
        self.free
    }

    pub(super) const fn departed(&self) -> u64 {
        self.departed
    }

    /// What no pipeline has used.
    pub(super) const fn left(&self) -> u64 {
        self.capacity - self.used - self.departed
    }

    /// The unused reservations of waiting pipelines.
    pub(super) const fn held(&self) -> u64 {
        self.reserved - self.used
    }

    /// The reservation of a waiting pipeline since the block was last divided, drawn on or not.
    pub(super) fn reserved_for(&self, pipeline: PipelineId) -> u64 {
        let even: u64 =
            self.steps.iter().rev().take_while(|(last, _)| *last >= pipeline).map(|(_, amount)| amount).sum();
        match self.extras.is_empty() {
            true => even,
            false => even + self.extra(pipeline).map_or(0, |index| self.extras[index].1),
        }
    }

    /// Reads [`Self::reserved_for`] of several pipelines in order of arrival, in one pass.
    pub(super) fn walk(&self) -> Walk<'_> {
        let even = self.steps.iter().map(|(_, amount)| amount).sum();
        Walk { even, steps: &self.steps, extras: &self.extras }
    }

    fn extra(&self, pipeline: PipelineId) -> Option<usize> {
        self.extras.binary_search_by_key(&pipeline, |(own, _)| *own).ok()
    }

    /// Divides what is free evenly among the waiting pipelines; the remainder goes to the longest-waiting ones.
    pub(super) fn hand_out(&mut self, waiting: &[PipelineId]) {
        let (Some(newest), Ok(count)) = (waiting.last(), u64::try_from(waiting.len())) else { return };
        let (share, over) = (self.free / count, self.free % count);
        self.add_step(*newest, share);
        if let Some(last) = (over as usize).checked_sub(1) {
            self.add_step(waiting[last], 1);
        }
        self.reserved += self.free;
        self.free = 0;
    }

    fn add_step(&mut self, last: PipelineId, amount: u64) {
        if amount == 0 {
            return;
        }
        match self.steps.binary_search_by_key(&last, |(last, _)| *last) {
            Ok(index) => self.steps[index].1 += amount,
            Err(index) => self.steps.insert(index, (last, amount)),
        }
    }

    /// Divides all unused reservations again after a loan: first what is promised, as far as it goes, then the rest
    /// evenly among all waiting pipelines except the borrower, with the remainder to the longest-waiting ones. Returns
    /// what the steps would give the borrower, which has no claim to it. Another pipeline must be waiting.
    pub(super) fn divide_anew(
        &mut self, waiting: &[PipelineId], borrower: usize, promised: impl Iterator<Item = (PipelineId, u64)>,
    ) -> u64 {
        self.steps.clear();
        self.extras.clear();
        let mut rest = self.held();
        for (pipeline, promised) in promised.filter(|(_, promised)| *promised > 0) {
            let amount = promised.min(rest);
            self.extras.push((pipeline, amount));
            rest -= amount;
        }
        let (Some(newest), Ok(others @ 1..)) = (waiting.last(), u64::try_from(waiting.len() - 1)) else { return 0 };
        let (share, over) = (rest / others, rest % others);
        self.add_step(*newest, share);
        if let Some(last) = (over as usize).checked_sub(1) {
            self.add_step(waiting[last + usize::from(borrower <= last)], 1);
        }
        self.reserved_for(waiting[borrower])
    }

    /// Returns to a waiting pipeline what it had used before the block was last divided.
    pub(super) fn add_extra(&mut self, pipeline: PipelineId, amount: u64) {
        match self.extras.binary_search_by_key(&pipeline, |(own, _)| *own) {
            Ok(index) => self.extras[index].1 += amount,
            Err(index) if amount > 0 => self.extras.insert(index, (pipeline, amount)),
            Err(_) => {}
        }
    }

    /// Moves free budget to a pipeline that needs no reservation.
    pub(super) fn take(&mut self, amount: u64) {
        self.free -= amount;
        self.reserved += amount;
    }

    /// The reverse.
    pub(super) fn give_up(&mut self, amount: u64) {
        self.free += amount;
        self.reserved -= amount;
    }

    /// Marks allocated budget as used.
    pub(super) fn use_up(&mut self, amount: u64) {
        self.used += amount;
    }

    /// The reverse.
    pub(super) fn put_back(&mut self, amount: u64) {
        self.used -= amount;
    }

    /// Removes a pipeline with this allocation and use; what it did not use becomes free. Its step, if it had one,
    /// moves to the pipeline before it.
    pub(super) fn depart(&mut self, pipeline: PipelineId, before: Option<PipelineId>, allocated: u64, used: u64) {
        self.reserved -= allocated;
        self.used -= used;
        self.departed += used;
        self.free += allocated - used;
        if let Some(index) = self.extra(pipeline) {
            self.extras.remove(index);
        }
        if let Ok(index) = self.steps.binary_search_by_key(&pipeline, |(last, _)| *last) {
            let (_, amount) = self.steps.remove(index);
            if let Some(before) = before {
                self.add_step(before, amount);
            }
        }
    }
}
