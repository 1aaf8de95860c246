//! Neighbouring streams: whatever is done on two streams that differ in one row, everything observable except the
//! released noisy numbers is the same: success or failure, messages, views, log events with their contents and order,
//! files with their sizes.
//!
//! The row that differs is as conspicuous as possible, and the expressions are generated with a bias to what a row
//! could make fail. [`kinds`] lists every kind of pipeline and query from the product's own types, so that a new kind
//! fails the harness until the harness covers it. [`planted`] shows that the comparison finds each kind of difference.
//!
//! Own code runs in a sandbox that starts this program again, so `main` is its own.

mod kinds;
mod noise;
mod observe;
mod own_code;
mod pair;
mod pipelines;
mod planted;
mod queries;
mod rows;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    sage_engine::enter_sandbox_if_requested();
    let trial = |name: &str, test: fn()| {
        Trial::test(name, move || {
            test();
            Ok::<(), Failed>(())
        })
    };
    let trials = vec![
        trial("every_kind_of_query_runs", queries::every_kind_of_query_runs),
        trial("queries_on_neighbours_look_alike", queries::queries_on_neighbours_look_alike),
        trial("known_attacks_show_nothing", queries::known_attacks_show_nothing),
        trial("an_answer_leaves_at_an_interval", queries::an_answer_leaves_at_an_interval),
        trial("every_kind_of_pipeline_runs", pipelines::every_kind_of_pipeline_runs),
        trial("pipelines_on_neighbours_look_alike", pipelines::pipelines_on_neighbours_look_alike),
        trial("a_stream_of_users_looks_alike", pipelines::a_stream_of_users_looks_alike),
        trial("own_code_on_neighbours_looks_alike", own_code::own_code_on_neighbours_looks_alike),
        trial("every_planted_leak_is_found", planted::every_planted_leak_is_found),
        trial("noise_hides_no_other_field", noise::noise_hides_no_other_field),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
