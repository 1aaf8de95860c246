//! Columns of a Parquet file, by name, in the order of time.
//!
//! Parquet's own column readers are enough for a few columns of numbers and short texts, so these tests need no other
//! reader.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::{FileReader, SerializedFileReader};
use sage_learn::encode::{Encoded, Encoding, Source};

/// A file in the folder `SAGE_DATA`, if it exists.
pub(crate) fn real(file: &str) -> Option<PathBuf> {
    let found = std::env::var_os("SAGE_DATA").map(|folder| Path::new(&folder).join(file)).filter(|path| path.exists());
    if found.is_none() {
        println!("skipped: SAGE_DATA is not a folder with {file}");
    }
    found
}

/// Values of one column.
enum Column {
    /// Numbers; NaN if missing.
    Numbers(Vec<f64>),
    /// Texts: the distinct texts, and for each row the index of its text.
    Texts(Vec<String>, Vec<u16>),
}

/// Rows whose columns have names.
pub(crate) struct Table {
    names: Vec<&'static str>,
    columns: Vec<Column>,
    rows: usize,
}

impl Table {
    /// Reads these columns.
    pub(crate) fn read(path: &Path, names: &[&'static str]) -> Self {
        let file = File::open(path).expect("a file");
        let reader = SerializedFileReader::new(file).expect("a Parquet file");
        let rows = reader.metadata().file_metadata().num_rows() as usize;
        let columns: Vec<Column> = names.iter().map(|name| read_column(&reader, name)).collect();
        Self { names: names.to_vec(), columns, rows }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// The index of the column of this name, as encodings refer to it.
    pub(crate) fn column_index(&self, name: &str) -> u32 {
        self.names.iter().position(|known| *known == name).expect("a column") as u32
    }

    /// A column of numbers.
    pub(crate) fn numbers(&self, name: &str) -> &[f64] {
        match &self.columns[self.column_index(name) as usize] {
            Column::Numbers(numbers) => numbers,
            Column::Texts(..) => panic!("{name} holds texts"),
        }
    }

    /// Adds a column that is computed from each row's numbers.
    pub(crate) fn with(mut self, name: &'static str, number: impl Fn(&Self, usize) -> f64) -> Self {
        let numbers = (0..self.rows).map(|row| number(&self, row)).collect();
        self.names.push(name);
        self.columns.push(Column::Numbers(numbers));
        self
    }

    /// The rows that a public filter keeps, sorted by a column.
    pub(crate) fn sorted(self, by: &str, keep: impl Fn(&Self, usize) -> bool) -> Self {
        let mut order: Vec<usize> = (0..self.rows).filter(|&row| keep(&self, row)).collect();
        let time = self.numbers(by);
        order.sort_by(|&one, &other| time[one].total_cmp(&time[other]));
        let columns = self.columns.iter().map(|column| column.at(&order)).collect();
        Self { names: self.names, columns, rows: order.len() }
    }

    /// The number of rows in the first nine tenths of the period.
    pub(crate) fn held_out_from(&self, by: &str) -> usize {
        let time = self.numbers(by);
        let (first, last) = (time[0], time[self.rows - 1]);
        time.partition_point(|&at| at < first + 0.9 * (last - first))
    }

    /// Some of the rows, encoded.
    pub(crate) fn encode(&self, encoding: &Encoding, rows: impl Iterator<Item = usize>) -> Encoded {
        encoding.encode(rows.map(|row| Row { table: self, row }))
    }
}

impl Column {
    fn at(&self, order: &[usize]) -> Self {
        match self {
            Self::Numbers(numbers) => Self::Numbers(order.iter().map(|&row| numbers[row]).collect()),
            Self::Texts(texts, which) => Self::Texts(texts.clone(), order.iter().map(|&row| which[row]).collect()),
        }
    }
}

/// One row of a table.
struct Row<'table> {
    table: &'table Table,
    row: usize,
}

impl Source for Row<'_> {
    fn number(&self, column: u32) -> Option<f64> {
        match self.table.columns.get(column as usize)? {
            Column::Numbers(numbers) => Some(numbers[self.row]).filter(|number| !number.is_nan()),
            Column::Texts(..) => None,
        }
    }

    fn integer(&self, column: u32) -> Option<i64> {
        self.number(column).filter(|number| number.fract() == 0.0).map(|number| number as i64)
    }

    fn text(&self, column: u32) -> Option<&str> {
        match self.table.columns.get(column as usize)? {
            Column::Numbers(_) => None,
            Column::Texts(texts, which) => texts.get(which[self.row] as usize).map(String::as_str),
        }
    }
}

fn read_column(reader: &SerializedFileReader<File>, name: &str) -> Column {
    let schema = reader.metadata().file_metadata().schema_descr();
    let index = (0..schema.num_columns()).find(|&index| schema.column(index).name() == name).expect("a column");
    let mut numbers = Vec::new();
    let (mut known, mut which) = (BTreeMap::new(), Vec::new());
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).expect("a row group");
        let rows = group.metadata().num_rows() as usize;
        match group.get_column_reader(index).expect("a column") {
            ColumnReader::Int32ColumnReader(column) => numbers.extend(values(column, rows, |&value| f64::from(value))),
            // Times are in microseconds, which are exact in `f64` for centuries.
            ColumnReader::Int64ColumnReader(column) => numbers.extend(values(column, rows, |&value| value as f64)),
            ColumnReader::DoubleColumnReader(column) => numbers.extend(values(column, rows, |&value| value)),
            ColumnReader::ByteArrayColumnReader(column) => {
                let texts = values(column, rows, |value: &ByteArray| value.as_utf8().expect("a text").to_owned());
                for text in texts.into_iter().map(Option::unwrap_or_default) {
                    let next = known.len() as u16;
                    which.push(*known.entry(text).or_insert(next));
                }
            }
            _ => panic!("{name} has a type that these tests do not read"),
        }
    }
    if which.is_empty() {
        return Column::Numbers(numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect());
    }
    let mut texts = vec![String::new(); known.len()];
    known.into_iter().for_each(|(text, index)| texts[index as usize] = text);
    Column::Texts(texts, which)
}

/// The values of a column in one group of rows.
fn values<T: DataType, V>(mut column: ColumnReaderImpl<T>, rows: usize, value: impl Fn(&T::T) -> V) -> Vec<Option<V>> {
    let (mut levels, mut found) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (records, ..) = column.read_records(rows - read, Some(&mut levels), None, &mut found).expect("values");
        assert!(records > 0, "a column ends early");
        read += records;
    }
    let mut found = found.iter();
    // A column that is never null has no levels.
    levels.resize(rows, 1);
    levels.iter().map(|&level| if level > 0 { found.next().map(&value) } else { None }).collect()
}
