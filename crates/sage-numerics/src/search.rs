//! Bisection: the boundary of a condition on floating-point numbers.

/// Bisects the interval until its ends are adjacent floating-point numbers, keeping `holds(inside)` true; returns
/// the inside end.
pub fn bisect(inside: f64, outside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut inside, mut outside) = (inside, outside);
    for _ in 0..200 {
        let middle = 0.5 * (inside + outside);
        if middle == inside || middle == outside {
            break;
        }
        if holds(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}
