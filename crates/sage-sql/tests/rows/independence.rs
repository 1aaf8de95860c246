//! Random expressions on random rows: the value of a row does not depend on the other rows.

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::compute::{concat, concat_batches};
use sage_sql::synthetic::{self, Dice};
use sage_sql::{Program, Schema, parse, plan};

/// The value of each row when the row is evaluated alone.
fn alone(program: &Program, rows: &RecordBatch) -> ArrayRef {
    let values: Vec<ArrayRef> = (0..rows.num_rows()).map(|row| program.evaluate(&rows.slice(row, 1))).collect();
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    concat(&values).expect("values of one type")
}

/// Whether two arrays hold the same values, bit for bit except for the payload of NaN.
fn same(one: &dyn Array, two: &dyn Array) -> bool {
    let formatted = |array: &dyn Array| {
        let options = arrow::util::display::FormatOptions::new().with_null("NULL");
        let formatter = arrow::util::display::ArrayFormatter::try_new(array, &options).expect("a formatter");
        (0..array.len()).map(|row| formatter.value(row).to_string()).collect::<Vec<String>>()
    };
    one.data_type() == two.data_type() && formatted(one) == formatted(two)
}

fn pairs() -> u64 {
    if std::env::var_os("SAGE_SOAK").is_some() { 1_000_000 } else { 10_000 }
}

#[test]
fn rows_do_not_influence_each_other() {
    let seed: u64 = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0x5a6e_0015);
    println!("SAGE_SEED={seed}");
    let schema = Schema::new(&synthetic::schema());
    let (mut planned, mut refused) = (0, 0);
    for pair in 0..pairs() {
        let mut dice = Dice(seed.wrapping_add(pair));
        let depth = u32::try_from(1 + dice.below(4)).expect("small");
        let sql = match dice.below(4) {
            0 => synthetic::condition(&mut dice, depth),
            1 => synthetic::number(&mut dice, depth),
            2 => synthetic::text(&mut dice, depth),
            _ => synthetic::time(&mut dice, depth),
        };
        let expression = parse(&sql).unwrap_or_else(|refusal| panic!("pair {pair}: {sql}: {refusal}"));
        assert_eq!(parse(&expression.to_string()), Ok(expression.clone()), "pair {pair}: {sql} is formatted wrongly");
        // Some are refused, based on their text and the schema alone.
        let Ok(program) = plan(&expression, &schema) else {
            refused += 1;
            continue;
        };
        planned += 1;
        let count = usize::try_from(1 + dice.below(7)).expect("small");
        let rows = synthetic::rows(&mut dice, count);
        let together = program.evaluate(&rows);
        assert_eq!(together.len(), count, "pair {pair}: {sql}");
        assert!(same(&together, &alone(&program, &rows)), "pair {pair}: {sql}: rows influence each other");
        // With one more row, the values of the others do not change.
        let neighbour = concat_batches(&rows.schema(), [&synthetic::rows(&mut dice, 1), &rows]).expect("rows");
        let with_neighbour = program.evaluate(&neighbour);
        assert!(
            same(&together, &with_neighbour.slice(1, count)),
            "pair {pair}: {sql}: one more row changes the others"
        );
    }
    println!("{planned} planned, {refused} refused");
    assert!(planned > 4 * refused, "most expressions are planned: {planned}, {refused}");
}

/// The check above can fail: it detects values that depend on other rows.
#[test]
fn an_injected_influence_is_detected() {
    let mut dice = Dice(1);
    let rows = synthetic::rows(&mut dice, 50);
    let schema = Schema::new(&synthetic::schema());
    let program = plan(&parse("x + 1").expect("an expression"), &schema).expect("a program");
    let honest = program.evaluate(&rows);
    assert!(same(&honest, &alone(&program, &rows)));
    let shifted = concat(&[&honest.slice(1, 49), &honest.slice(0, 1)]).expect("values");
    assert!(!same(&shifted, &alone(&program, &rows)), "values shifted by a row are detected");
}
