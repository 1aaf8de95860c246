//! Units of several records: their records behave alike, so a test must count units.

use sage_kernel::{Epsilon, Pair, TableNoise};
use sage_learn::validate::decide::{Tail, accepts, accepts_accuracy};
use sage_learn::validate::{Margin, Risk};

use super::chance::{Source, run_seed, runs, within};
use super::simulate::{Point, count};

/// The records of a unit.
const RECORDS: f64 = 10.0;
const TAILS: [Tail; 3] = [Tail::KullbackLeibler, Tail::Bernstein, Tail::Hoeffding];

/// Users who are always right or always wrong, with a mean exactly at the target: wrong acceptances stay within the risk
/// if a user counts once, with the mean of their records. If records counted they would not: the same simulation shows it.
#[test]
fn users_who_behave_alike_are_wrongly_accepted_within_the_risk() {
    let seed = run_seed("users who behave alike");
    let risk = 0.05;
    let mut refuted = 0;
    for users in [5, 20, 100, 1_000] {
        for mean in [0.05, 0.3, 0.5] {
            for epsilon in [100_000_000_000, 1_000_000_000_000, 10_000_000_000_000_000] {
                let point = Point { rows: users, mean, epsilon };
                let source = Source::laplace(epsilon);
                let noise = TableNoise::Laplace(Epsilon::from_units(epsilon).unwrap());
                let margin = Margin::one_sided(noise.into(), Risk::new(risk).unwrap());
                let counts = count::<7>(point, &source, point.seed(seed), |sum, noise| {
                    let right = users as f64 - sum;
                    let by_user = Pair { above: sum + noise[0], below: right + noise[1] };
                    let by_record = Pair { above: RECORDS * sum + noise[0], below: RECORDS * right + noise[1] };
                    let [one, two, three] = TAILS.map(|tail| accepts(by_user, mean, margin, tail));
                    let records = TAILS.map(|tail| accepts(by_record, mean, margin, tail));
                    let exact = accepts_accuracy(by_record.below, by_record.above, 1.0 - mean, margin);
                    [one, two, three, records[0], records[1], records[2], exact]
                });
                for (index, &wrong) in counts[..3].iter().enumerate() {
                    assert!(within(wrong, runs(), risk), "{index}: {wrong} wrong of {} at {point:?}", runs());
                }
                refuted += counts[3..].iter().filter(|&&wrong| !within(wrong, runs(), risk)).count();
            }
        }
    }
    assert!(refuted >= 20, "tests that count records are refuted: {refuted}");
}
