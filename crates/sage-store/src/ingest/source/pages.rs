//! Size checks of a Parquet file before anything is decompressed.
//!
//! A few bytes can claim gigabytes: pages that decompress to more than memory, dictionaries of a billion values,
//! footers with a million row groups, schemas nested a million deep. All these sizes are in plain headers. This module
//! adds them up for the declared columns and refuses a file that needs too much memory. Some codecs can produce more
//! bytes than a page claims; their pages are decompressed once and the output is discarded.

use std::fs::File;
use std::io::{self, Read};

use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::thrift::{LIST, STRUCTURE, Visited, Walker};
use super::{BATCH_BYTES, BATCH_ROWS};
use crate::private;

pub(super) const DAMAGED: &str = "this is not Parquet, or it is damaged or truncated";
const WIDE: &str =
    "the footer describes more columns and row groups than fit in memory; write fewer, larger row groups";
const DEEP: &str = "its columns are nested more than 32 deep; write the declared columns at the top";
const HEAVY: &str =
    "a page decompresses to more than 128 MiB, or a dictionary to more than 32 MiB; write smaller pages";
const CROWDED: &str =
    "the pages that must be decompressed at the same time take more than 320 MiB; write smaller pages or dictionaries";
const DELTA: &str = "a text column has a delta encoding, whose size is known only after decoding; write it with a \
                         dictionary, or with plain encoding";

/// Limits of the footer: fields and items in total, column chunks, and the depth of the schema.
const ITEM_LIMIT: usize = 8 << 20;
const CHUNK_LIMIT: usize = 1 << 18;
const NESTING_LIMIT: usize = 32;

/// The most bytes of a decompressed page, of a dictionary, and of all that are in memory at the same time.
const PAGE_LIMIT: u64 = 128 << 20;
const DICTIONARY_LIMIT: u64 = 32 << 20;
const HELD_LIMIT: u64 = 320 << 20;

/// The most bytes of a page header, and how many are read first.
const HEADER_LIMIT: usize = 1 << 20;
const HEADER_START: usize = 256;
const VALUE_LIMIT: i32 = 1 << 10;

/// Checks that the footer contains all it claims and stays within the limits.
pub(super) fn check_footer(footer: &[u8]) -> Result<(), &'static str> {
    let mut walker = Walker::new(footer, ITEM_LIMIT);
    let (mut chunks, mut deepest, mut open) = (0_usize, 0_usize, Vec::new());
    let walked = walker.walk_structure(&mut |walker, field, kind| match (field, kind) {
        (2, LIST) => {
            walker.walk_list(&mut |walker, _, kind| {
                let children = read_schema_element(walker, kind)?;
                deepest = deepest.max(descend(&mut open, children));
                (deepest <= NESTING_LIMIT).then_some(Visited::Read)
            })?;
            Some(Visited::Read)
        }
        (4, LIST) => {
            walker.walk_list(&mut |walker, _, kind| {
                chunks += read_row_group(walker, kind)?;
                (chunks <= CHUNK_LIMIT).then_some(Visited::Read)
            })?;
            Some(Visited::Read)
        }
        _ => Some(Visited::Skip),
    });
    match walked {
        Some(()) => Ok(()),
        None if deepest > NESTING_LIMIT => Err(DEEP),
        None if chunks > CHUNK_LIMIT || walker.is_exhausted() => Err(WIDE),
        None => Err(DAMAGED),
    }
}

/// Walks a schema element and returns the number of its children.
fn read_schema_element(walker: &mut Walker<'_>, kind: u8) -> Option<usize> {
    let mut children = 0;
    let mut visit = |walker: &mut Walker<'_>, field, kind| {
        if field != 5 {
            return Some(Visited::Skip);
        }
        children = usize::try_from(walker.read_i32(kind)?).ok()?;
        Some(Visited::Read)
    };
    if kind == STRUCTURE {
        walker.walk_structure(&mut visit)?
    } else {
        return None;
    }
    Some(children)
}

/// Advances through the schema, which lists each element before its children. Returns the depth of this element.
fn descend(open: &mut Vec<usize>, children: usize) -> usize {
    while open.last() == Some(&0) {
        open.pop();
    }
    if let Some(left) = open.last_mut() {
        *left -= 1;
    }
    let depth = open.len();
    if children > 0 {
        open.push(children);
    }
    depth
}

/// Walks a row group and returns the number of its column chunks, plus one for itself.
fn read_row_group(walker: &mut Walker<'_>, kind: u8) -> Option<usize> {
    let mut chunks = 1;
    let mut visit = |walker: &mut Walker<'_>, field, kind| {
        if (field, kind) != (1, LIST) {
            return Some(Visited::Skip);
        }
        walker.walk_list(&mut |_, _, _| {
            chunks += 1;
            Some(Visited::Skip)
        })?;
        Some(Visited::Read)
    };
    if kind == STRUCTURE {
        walker.walk_structure(&mut visit)?
    } else {
        return None;
    }
    Some(chunks)
}

/// Checks every page of these leaf columns. Returns how many rows can safely be decoded at a time.
pub(super) fn check_pages(bytes: &File, metadata: &ParquetMetaData, leaves: &[usize]) -> Result<usize, &'static str> {
    let length = bytes.metadata().map_err(|_| DAMAGED)?.len();
    let mut densest = 1_u64;
    for group in metadata.row_groups() {
        let mut held = 0_u64;
        for &leaf in leaves {
            let chunk = group.columns().get(leaf).ok_or(DAMAGED)?;
            let sizes = Chunk { bytes, length, chunk }.measure()?;
            held += sizes.page + sizes.dictionary;
            densest = densest.max(sizes.densest);
        }
        if held > HELD_LIMIT {
            return Err(CROWDED);
        }
    }
    let row = usize::try_from(densest).unwrap_or(usize::MAX);
    Ok((BATCH_BYTES / row).clamp(1, BATCH_ROWS))
}

/// The largest sizes in a column chunk, in bytes.
#[derive(Default)]
struct ChunkSizes {
    page: u64,
    dictionary: u64,
    /// The greatest average size of a page's values.
    densest: u64,
}

struct Chunk<'file> {
    bytes: &'file File,
    length: u64,
    chunk: &'file ColumnChunkMetaData,
}

/// The header of a page.
#[derive(Default)]
struct Header {
    kind: i32,
    decompressed: u64,
    compressed: u64,
    values: u64,
    encoding: i32,
    /// Bytes of the repetition and definition levels of a version 2 page. They are never compressed.
    levels: [u64; 2],
    /// Whether a version 2 page is stored without compression.
    plain: bool,
    /// The size of the header itself.
    bytes: u64,
}

impl Header {
    fn level_bytes(&self) -> u64 {
        self.levels[0] + self.levels[1]
    }
}

const INDEX: i32 = 1;
const DICTIONARY: i32 = 2;
const DELTA_LENGTH: i32 = 6;
const DELTA_TEXT: i32 = 7;

impl Chunk<'_> {
    /// Reads the headers of all pages.
    fn measure(&self) -> Result<ChunkSizes, &'static str> {
        let column = self.chunk.column_descr();
        if column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY && column.type_length() > VALUE_LIMIT {
            return Err(DAMAGED);
        }
        let (start, length) = self.chunk.byte_range();
        let end = start.checked_add(length).filter(|&end| end <= self.length).ok_or(DAMAGED)?;
        let mut sizes = ChunkSizes::default();
        let mut position = start;
        while position < end {
            let header = self.read_header(position, end)?;
            position += header.bytes;
            if header.compressed > end - position {
                return Err(DAMAGED);
            }
            self.check_page(&header, position, &mut sizes)?;
            position += header.compressed;
        }
        Ok(sizes)
    }

    fn check_page(&self, header: &Header, position: u64, sizes: &mut ChunkSizes) -> Result<(), &'static str> {
        let size = header.decompressed.max(header.compressed);
        match header.kind {
            INDEX => return Ok(()),
            DICTIONARY => {
                // The page must be large enough for the claimed number of values.
                if header.values.saturating_mul(self.value_bytes()) > header.decompressed {
                    return Err(DAMAGED);
                }
                if size > DICTIONARY_LIMIT {
                    return Err(HEAVY);
                }
                sizes.dictionary = sizes.dictionary.max(size);
            }
            _ => {
                if matches!(header.encoding, DELTA_LENGTH | DELTA_TEXT) {
                    return Err(DELTA);
                }
                if size > PAGE_LIMIT {
                    return Err(HEAVY);
                }
                sizes.page = sizes.page.max(size);
                sizes.densest = sizes.densest.max(header.decompressed / header.values.max(1));
            }
        }
        self.check_decompressed_size(header, position)
    }

    /// The least bytes of a value in a dictionary.
    fn value_bytes(&self) -> u64 {
        match self.chunk.column_descr().physical_type() {
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.chunk.column_descr().type_length()).unwrap_or(1).max(1),
            _ => 4,
        }
    }

    fn read_header(&self, position: u64, end: u64) -> Result<Header, &'static str> {
        for limit in [HEADER_START, HEADER_LIMIT] {
            let count = usize::try_from(end - position).unwrap_or(usize::MAX).min(limit);
            let mut start = vec![0; count];
            private::read_exact_at(self.bytes, &mut start, position).map_err(|_| DAMAGED)?;
            if let Some(header) = parse_header(&start) {
                return Ok(header);
            }
        }
        Err(DAMAGED)
    }

    /// Decompresses a page and discards the output, if its codec does not stop at the claimed size.
    fn check_decompressed_size(&self, header: &Header, position: u64) -> Result<(), &'static str> {
        let codec = self.chunk.compression();
        let bounded = !matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4);
        if bounded || header.plain {
            return Ok(());
        }
        let levels = header.level_bytes();
        let claimed = header.decompressed.checked_sub(levels).ok_or(DAMAGED)?;
        let length = header.compressed.checked_sub(levels).ok_or(DAMAGED)?;
        let mut compressed = vec![0; usize::try_from(length).map_err(|_| DAMAGED)?];
        private::read_exact_at(self.bytes, &mut compressed, position + levels).map_err(|_| DAMAGED)?;
        let count = |decompressed: &mut dyn Read| io::copy(&mut decompressed.take(claimed + 1), &mut io::sink());
        let found = match codec {
            Compression::GZIP(_) => count(&mut flate2::read::MultiGzDecoder::new(&compressed[..])),
            Compression::BROTLI(_) => count(&mut brotli::Decompressor::new(&compressed[..], 1 << 12)),
            // The reader decodes a page that is not an LZ4 frame as an older form of LZ4, which stops at the claim.
            _ => {
                return match count(&mut lz4_flex::frame::FrameDecoder::new(&compressed[..])) {
                    Ok(found) if found > claimed => Err(HEAVY),
                    _ => Ok(()),
                };
            }
        };
        match found {
            Ok(found) if found > claimed => Err(HEAVY),
            Ok(_) => Ok(()),
            Err(_) => Err(DAMAGED),
        }
    }
}

/// Parses a page header. Returns `None` if a field is repeated, because readers differ in which value they use.
fn parse_header(bytes: &[u8]) -> Option<Header> {
    let mut header = Header::default();
    let mut walker = Walker::new(bytes, HEADER_LIMIT);
    let mut fields = FieldSet::default();
    let mut parts = 0;
    walker.walk_structure(&mut |walker, field, kind| {
        fields.insert_new(field)?;
        match field {
            1 => header.kind = walker.read_i32(kind)?,
            2 => header.decompressed = u64::try_from(walker.read_i32(kind)?).ok()?,
            3 => header.compressed = u64::try_from(walker.read_i32(kind)?).ok()?,
            5 | 7 | 8 if kind == STRUCTURE => {
                parts += 1;
                parse_page_details(walker, field, &mut header)?;
            }
            5 | 7 | 8 => return None,
            _ => return Some(Visited::Skip),
        }
        Some(Visited::Read)
    })?;
    header.bytes = walker.position() as u64;
    (parts <= 1).then_some(header)
}

/// The field numbers seen in a structure, as bits.
#[derive(Default)]
struct FieldSet(u64);

impl FieldSet {
    /// Adds a field number. Returns `None` if it was added before or is out of range.
    fn insert_new(&mut self, field: i64) -> Option<()> {
        let bit = 1_u64.checked_shl(u32::try_from(field).ok()?)?;
        let before = self.0;
        self.0 |= bit;
        (before & bit == 0).then_some(())
    }
}

/// Parses the part of a header that belongs to the kind of page: field 5 for a data page, 7 for a dictionary, 8 for a
/// data page of version 2.
fn parse_page_details(walker: &mut Walker<'_>, part: i64, header: &mut Header) -> Option<()> {
    let version_2 = part == 8;
    let mut fields = FieldSet::default();
    walker.walk_structure(&mut |walker, field, kind| {
        fields.insert_new(field)?;
        match field {
            1 => header.values = u64::try_from(walker.read_i32(kind)?).ok()?,
            2 if !version_2 => header.encoding = walker.read_i32(kind)?,
            4 if version_2 => header.encoding = walker.read_i32(kind)?,
            5 if version_2 => header.levels[0] = u64::try_from(walker.read_i32(kind)?).ok()?,
            6 if version_2 => header.levels[1] = u64::try_from(walker.read_i32(kind)?).ok()?,
            // The type of a boolean is its value: 1 is true and 2 is false.
            7 if version_2 => header.plain = Some(kind).filter(|kind| matches!(kind, 1 | 2))? == 2,
            _ => return Some(Visited::Skip),
        }
        Some(Visited::Read)
    })
}
