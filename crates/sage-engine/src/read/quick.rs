//! Quicker forms of two things that most queries do: the part of a time, and a value under a condition.
//!
//! The planner's own take a time apart through the calendar even for its hour, and copy the rows for which a
//! condition holds before they compute with them. Here expressions are total already (`total`), so the value may as
//! well be computed for all rows and hidden for some. Both give what the planner's own give, value for value; times
//! are within the years that `total` leaves.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::compute::{not, nullif, prep_null_mask_filter};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Case, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

/// The same expression in its quicker form.
pub(super) fn quicker(expression: Expr) -> Result<Expr> {
    let rewritten = expression.transform_up(|part| {
        Ok(match part {
            Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "date_part" => {
                let func = Arc::new(ScalarUDF::new_from_impl(PartOfTime { slow: func }));
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
            }
            Expr::Case(case) => under_condition(case),
            other => Transformed::no(other),
        })
    });
    rewritten.map(|rewritten| rewritten.data)
}

/// A case of one condition and nothing else as a value that is hidden where the condition does not hold.
fn under_condition(mut case: Case) -> Transformed<Expr> {
    if case.expr.is_some() || case.else_expr.is_some() || case.when_then_expr.len() != 1 {
        return Transformed::no(Expr::Case(case));
    }
    let Some((condition, value)) = case.when_then_expr.pop() else { return Transformed::no(Expr::Case(case)) };
    let func = Arc::new(ScalarUDF::new_from_impl(Where { signature: Signature::any(2, Volatility::Immutable) }));
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args: vec![*condition, *value] }))
}

/// The part of a time: of a timestamp's hour and minute and the day of its week by division alone.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PartOfTime {
    /// The planner's own, for everything else.
    slow: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for PartOfTime {
    fn name(&self) -> &str {
        self.slow.name()
    }

    fn signature(&self) -> &Signature {
        self.slow.signature()
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        self.slow.return_type(of)
    }

    fn return_field_from_args(&self, of: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.slow.return_field_from_args(of)
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let quick = match given.args.as_slice() {
            [ColumnarValue::Scalar(part), ColumnarValue::Array(times)] => by_division(part, times),
            _ => None,
        };
        quick.map_or_else(|| self.slow.invoke_with_args(given), |found| Ok(ColumnarValue::Array(found)))
    }
}

fn by_division(part: &ScalarValue, times: &ArrayRef) -> Option<ArrayRef> {
    let part = part.try_as_str().flatten()?.to_ascii_lowercase();
    let DataType::Timestamp(unit, zone) = times.data_type() else { return None };
    if zone.as_deref().is_some_and(|zone| !matches!(zone, "UTC" | "+00:00" | "Z")) {
        return None;
    }
    match unit {
        TimeUnit::Second => divided::<TimestampSecondType, 1>(&part, times),
        TimeUnit::Millisecond => divided::<TimestampMillisecondType, 1_000>(&part, times),
        TimeUnit::Microsecond => divided::<TimestampMicrosecondType, 1_000_000>(&part, times),
        TimeUnit::Nanosecond => divided::<TimestampNanosecondType, 1_000_000_000>(&part, times),
    }
}

/// A second is known to the compiler, which turns divisions into products.
fn divided<T: ArrowPrimitiveType<Native = i64>, const SECOND: i64>(part: &str, times: &ArrayRef) -> Option<ArrayRef> {
    let times = times.as_primitive_opt::<T>()?;
    let found: PrimitiveArray<Int32Type> = match part {
        "hour" => times.unary(|time| (time.rem_euclid(86_400 * SECOND) / (3_600 * SECOND)) as i32),
        "minute" => times.unary(|time| (time.rem_euclid(3_600 * SECOND) / (60 * SECOND)) as i32),
        // The first day of 1970 was a Thursday; Sunday is zero.
        "dow" => times.unary(|time| (time.div_euclid(86_400 * SECOND) + 4).rem_euclid(7) as i32),
        _ => return None,
    };
    Some(Arc::new(found))
}

/// A value where a condition is true, and null elsewhere.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Where {
    signature: Signature,
}

impl ScalarUDFImpl for Where {
    fn name(&self) -> &'static str {
        "where"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, of: &[DataType]) -> Result<DataType> {
        of.get(1).cloned().ok_or_else(|| DataFusionError::Plan("a value is needed".to_owned()))
    }

    fn return_field_from_args(&self, of: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = of.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, given: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&given.args)?;
        let [condition, value] = arrays.as_slice() else {
            return Err(DataFusionError::Plan("a condition and a value are needed".to_owned()));
        };
        let condition = condition.as_boolean();
        let hidden = match condition.nulls() {
            None => not(condition)?,
            Some(_) => not(&prep_null_mask_filter(condition))?,
        };
        Ok(ColumnarValue::Array(nullif(value.as_ref(), &hidden)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{RecordBatch, TimestampMicrosecondArray};
    use arrow::compute::cast;
    use arrow::datatypes::Schema;
    use datafusion::common::DFSchema;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::execution::context::ExecutionProps;
    use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
    use datafusion::physical_expr::create_physical_expr;

    use super::*;
    use crate::read::evaluate::values;
    use crate::read::probe;
    use crate::read::total::DAYS;

    /// What an expression gives, as planned and in its quicker form; and whether there is one.
    fn both(text: &str, batch: &RecordBatch) -> (ArrayRef, ArrayRef, bool) {
        let schema = DFSchema::try_from(batch.schema().as_ref().clone()).unwrap();
        let state = SessionStateBuilder::new().with_default_features().build();
        let planned = state.create_logical_expr(text, &schema).unwrap();
        let changed = quicker(planned.clone()).unwrap();
        let differs = changed != planned;
        let [one, other] = [planned, changed].map(|form| {
            let context = PhysicalPlanningContext::default();
            let form = create_physical_expr(&form, &schema, &ExecutionProps::new(), &context).unwrap();
            values(&form, batch).unwrap()
        });
        (one, other, differs)
    }

    #[test]
    fn parts_of_times_are_those_of_the_calendar() {
        let day = 86_400_000_000i64;
        let mut times: Vec<Option<i64>> = vec![None, Some(0), Some(-1), Some(1), Some(day - 1), Some(-day)];
        times.extend([DAYS.start * day, DAYS.end * day - 1].map(Some));
        let mut dice = 7i64;
        for _ in 0..5_000 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            times.push(Some((dice >> 3).rem_euclid((DAYS.end - DAYS.start) * day) + DAYS.start * day));
        }
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(times));
        for (unit, zone) in [
            (TimeUnit::Second, None),
            (TimeUnit::Millisecond, Some("UTC")),
            (TimeUnit::Microsecond, None),
            (TimeUnit::Nanosecond, Some("+00:00")),
        ] {
            let kind = DataType::Timestamp(unit, zone.map(Into::into));
            let column = cast(&times, &kind).unwrap();
            let schema = Arc::new(Schema::new(vec![Field::new("at", kind.clone(), true)]));
            let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
            for part in ["hour", "minute", "dow", "HOUR", "day", "second", "epoch", "year"] {
                let (slow, quick, differs) = both(&format!("date_part('{part}', at)"), &batch);
                assert!(differs && slow.null_count() == 1, "{part} of {kind}");
                assert_eq!(&slow, &quick, "{part} of {kind}");
            }
        }
    }

    #[test]
    fn what_is_under_a_condition_is_what_a_case_gives() {
        let fields = ["x", "y"].map(|name| Field::new(name, DataType::Float64, true));
        let text = Field::new("text", DataType::Utf8View, true);
        let schema = Arc::new(Schema::new([fields.to_vec(), vec![text]].concat()));
        let batches = probe::batches(&schema).unwrap();
        assert!(
            batches.iter().any(|batch| batch.num_rows() > 1_000) && batches.iter().any(|batch| batch.num_rows() == 0)
        );
        for batch in &batches {
            for text in [
                "CASE WHEN x > 0.0 THEN y * 2.0 / x END",
                "CASE WHEN x > 0.0 THEN text END",
                "CASE WHEN y IS NULL THEN x END",
                "CASE WHEN x > 0.0 THEN 1.5 END",
                "CASE WHEN text IS NULL THEN x > y END",
                "CASE WHEN x > 0.0 THEN CASE WHEN y > 0.0 THEN x + y END END",
            ] {
                let (slow, quick, differs) = both(text, batch);
                assert!(differs, "{text}");
                assert_eq!(&slow, &quick, "{text}");
            }
            for text in ["CASE WHEN x > 0.0 THEN y ELSE x END", "CASE x WHEN 1.0 THEN y END", "x + y"] {
                assert!(!both(text, batch).2, "{text} stays as it is");
            }
        }
    }
}
