//! Hand-crafted Parquet files, which can make claims that no writer would make.

/// A structure in the Thrift compact encoding. Fields are added in ascending order.
#[derive(Clone, Default)]
pub(crate) struct Structure {
    bytes: Vec<u8>,
    last: u8,
}

pub(crate) fn unsigned(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

impl Structure {
    fn field(mut self, number: u8, kind: u8, content: &[u8]) -> Self {
        self.bytes.push((number - self.last) << 4 | kind);
        self.bytes.extend(content);
        self.last = number;
        self
    }

    fn whole(self, number: u8, kind: u8, value: i64) -> Self {
        let zigzag = (value << 1 ^ value >> 63).cast_unsigned();
        self.field(number, kind, &unsigned(zigzag))
    }

    pub(crate) fn number(self, number: u8, value: i32) -> Self {
        self.whole(number, 5, i64::from(value))
    }

    pub(crate) fn long(self, number: u8, value: i64) -> Self {
        self.whole(number, 6, value)
    }

    /// A text that claims a length in bytes.
    pub(crate) fn text(self, number: u8, text: &str, claimed: u64) -> Self {
        let content = [unsigned(claimed), text.as_bytes().to_vec()].concat();
        self.field(number, 8, &content)
    }

    pub(crate) fn structure(self, number: u8, inner: &Self) -> Self {
        self.field(number, 12, &inner.end())
    }

    /// A list that claims a number of items.
    pub(crate) fn list(self, number: u8, kind: u8, items: &[Vec<u8>], claimed: u64) -> Self {
        let content = [vec![0xF0 | kind], unsigned(claimed), items.concat()].concat();
        self.field(number, 9, &content)
    }

    pub(crate) fn end(&self) -> Vec<u8> {
        [&self.bytes[..], &[0]].concat()
    }
}

/// A column and the bytes of its pages, headers included.
#[derive(Clone)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) physical: i32,
    pub(crate) logical: Option<i32>,
    pub(crate) width: i32,
    pub(crate) codec: i32,
    pub(crate) pages: Vec<u8>,
    pub(crate) values: i64,
}

pub(crate) const PLAIN: i32 = 0;
pub(crate) const BY_DICTIONARY: i32 = 8;

/// A data page with its header, which can make any claim.
pub(crate) fn page(values: i32, encoding: i32, decompressed: usize, compressed: &[u8]) -> Vec<u8> {
    let data = Structure::default().number(1, values).number(2, encoding).number(3, 3).number(4, 3);
    let header = Structure::default().number(1, 0).number(2, decompressed as i32).number(3, compressed.len() as i32);
    [header.structure(5, &data).end(), compressed.to_vec()].concat()
}

/// A dictionary page with its header.
pub(crate) fn dictionary(values: i32, decompressed: usize, compressed: &[u8]) -> Vec<u8> {
    let inner = Structure::default().number(1, values).number(2, PLAIN);
    let header = Structure::default().number(1, 2).number(2, decompressed as i32).number(3, compressed.len() as i32);
    [header.structure(7, &inner).end(), compressed.to_vec()].concat()
}

/// The dictionary index zero for all rows: the bit width of an index, and one run.
pub(crate) fn zero_indices(rows: u64) -> Vec<u8> {
    [vec![1], unsigned(rows << 1), vec![0]].concat()
}

pub(crate) fn plain_text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

fn element(column: &Column) -> Vec<u8> {
    let mut element = Structure::default().number(1, column.physical);
    if column.width > 0 {
        element = element.number(2, column.width);
    }
    element = element.number(3, 0).text(4, column.name, column.name.len() as u64);
    column.logical.map_or(element.clone(), |logical| element.number(6, logical)).end()
}

fn chunk(column: &Column, start: usize) -> Vec<u8> {
    let size = column.pages.len() as i64;
    let by_dictionary = column.pages.get(..2) == Some(&[0x15, 0x04]);
    let name = [unsigned(column.name.len() as u64), column.name.as_bytes().to_vec()].concat();
    let mut metadata = Structure::default()
        .number(1, column.physical)
        .list(2, 5, &[unsigned(0)], 1)
        .list(3, 8, &[name], 1)
        .number(4, column.codec)
        .long(5, column.values)
        .long(6, size)
        .long(7, size)
        .long(9, start as i64);
    if by_dictionary {
        metadata = metadata.long(11, start as i64);
    }
    Structure::default().long(2, start as i64).structure(3, &metadata).end()
}

/// The fields of a footer before its row groups.
pub(crate) fn footer(elements: &[Vec<u8>], children: i32, rows: i64) -> Structure {
    let root = Structure::default().text(4, "root", 4).number(5, children).end();
    let schema = [vec![root], elements.to_vec()].concat();
    Structure::default().number(1, 1).list(2, 12, &schema, schema.len() as u64).long(3, rows)
}

/// A file of one row group with these columns, which claims a number of rows.
pub(crate) fn file(columns: &[Column], rows: i64) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    let mut chunks = Vec::new();
    for column in columns {
        chunks.push(chunk(column, bytes.len()));
        bytes.extend(&column.pages);
    }
    let group = Structure::default().list(1, 12, &chunks, chunks.len() as u64).long(2, 1).long(3, rows).end();
    let elements: Vec<Vec<u8>> = columns.iter().map(element).collect();
    let footer = footer(&elements, columns.len() as i32, rows).list(4, 12, &[group], 1);
    with_footer(bytes, &footer)
}

/// Appends the footer to a file.
pub(crate) fn with_footer(mut bytes: Vec<u8>, footer: &Structure) -> Vec<u8> {
    let footer = footer.end();
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(b"PAR1");
    bytes
}
