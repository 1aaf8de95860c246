//! What a Parquet file claims of itself, looked at before anything of it is unpacked.
//!
//! A few bytes can claim to be gigabytes: pages that unpack to more than memory, dictionaries of a billion values,
//! footers with a million row groups, groups nested a million deep. All of it is said in plain numbers before it
//! comes, so the numbers of the declared columns are added up here, and a file that asks for too much is refused.
//! Two codecs do not keep to the size that a page claims; their pages are unpacked once into nothing.

use std::fs::File;
use std::io::{self, Read};

use parquet::basic::{Compression, Type};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::thrift::{LIST, STRUCTURE, Seen, Walk};
use super::{BATCH_BYTES, BATCH_ROWS};
use crate::private;

pub(super) const DAMAGED: &str = "this is no Parquet, or it is damaged or cut short";
const WIDE: &str =
    "the footer describes more columns and row groups than fit in memory; write fewer, larger row groups";
const DEEP: &str = "its columns are nested more than 32 deep; write the declared columns at the top";
const HEAVY: &str = "a page unpacks to more than 128 MiB, or a dictionary to more than 32 MiB; write smaller pages";
const CROWDED: &str =
    "the pages that must be unpacked at the same time take more than 320 MiB; write smaller pages or dictionaries";
const DELTA: &str = "a text column is packed as differences of texts, whose size shows only when it is unpacked; \
                     write it with a dictionary, or plainly";

/// What the footer may describe: fields and items altogether, column chunks, and the depth of the schema.
const ITEM_LIMIT: usize = 8 << 20;
const CHUNK_LIMIT: usize = 1 << 18;
const NESTING_LIMIT: usize = 32;

/// The most a page or a dictionary may unpack to, and all that are needed at the same time.
const PAGE_LIMIT: u64 = 128 << 20;
const DICTIONARY_LIMIT: u64 = 32 << 20;
const HELD_LIMIT: u64 = 320 << 20;

/// What the header of a page may take, and what is read of it at first.
const HEADER_LIMIT: usize = 1 << 20;
const HEADER_START: usize = 256;
const VALUE_LIMIT: i32 = 1 << 10;

/// Looks at the footer: that it has what it claims, and not too much of it.
pub(super) fn check_footer(footer: &[u8]) -> Result<(), &'static str> {
    let mut walk = Walk::new(footer, ITEM_LIMIT);
    let (mut chunks, mut deepest, mut open) = (0_usize, 0_usize, Vec::new());
    let walked = walk.structure(&mut |walk, field, kind| match (field, kind) {
        (2, LIST) => {
            walk.list(&mut |walk, _, kind| {
                let children = schema_element(walk, kind)?;
                deepest = deepest.max(descend(&mut open, children));
                (deepest <= NESTING_LIMIT).then_some(Seen::Read)
            })?;
            Some(Seen::Read)
        }
        (4, LIST) => {
            walk.list(&mut |walk, _, kind| {
                chunks += row_group(walk, kind)?;
                (chunks <= CHUNK_LIMIT).then_some(Seen::Read)
            })?;
            Some(Seen::Read)
        }
        _ => Some(Seen::Passed),
    });
    match walked {
        Some(()) => Ok(()),
        None if deepest > NESTING_LIMIT => Err(DEEP),
        None if chunks > CHUNK_LIMIT || walk.is_exhausted() => Err(WIDE),
        None => Err(DAMAGED),
    }
}

/// How many children an element of the schema has.
fn schema_element(walk: &mut Walk<'_>, kind: u8) -> Option<usize> {
    let mut children = 0;
    let mut visit = |walk: &mut Walk<'_>, field, kind| {
        if field != 5 {
            return Some(Seen::Passed);
        }
        children = usize::try_from(walk.small(kind)?).ok()?;
        Some(Seen::Read)
    };
    if kind == STRUCTURE {
        walk.structure(&mut visit)?
    } else {
        return None;
    }
    Some(children)
}

/// Follows the schema, which lists each element before its children, and gives the depth of this one.
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

/// How many chunks a row group has, and one for itself.
fn row_group(walk: &mut Walk<'_>, kind: u8) -> Option<usize> {
    let mut chunks = 1;
    let mut visit = |walk: &mut Walk<'_>, field, kind| {
        if (field, kind) != (1, LIST) {
            return Some(Seen::Passed);
        }
        walk.list(&mut |_, _, _| {
            chunks += 1;
            Some(Seen::Passed)
        })?;
        Some(Seen::Read)
    };
    if kind == STRUCTURE {
        walk.structure(&mut visit)?
    } else {
        return None;
    }
    Some(chunks)
}

/// Looks at every page of these leaves, and says how many rows can be unpacked at once.
pub(super) fn look(bytes: &File, metadata: &ParquetMetaData, leaves: &[usize]) -> Result<usize, &'static str> {
    let length = bytes.metadata().map_err(|_| DAMAGED)?.len();
    let mut densest = 1_u64;
    for group in metadata.row_groups() {
        let mut held = 0_u64;
        for &leaf in leaves {
            let chunk = group.columns().get(leaf).ok_or(DAMAGED)?;
            let found = Chunk { bytes, length, chunk }.look()?;
            held += found.page + found.dictionary;
            densest = densest.max(found.densest);
        }
        if held > HELD_LIMIT {
            return Err(CROWDED);
        }
    }
    let row = usize::try_from(densest).unwrap_or(usize::MAX);
    Ok((BATCH_BYTES / row).clamp(1, BATCH_ROWS))
}

/// The largest of a column chunk.
#[derive(Default)]
struct Largest {
    page: u64,
    dictionary: u64,
    /// Bytes of a value, in the page where they are most.
    densest: u64,
}

struct Chunk<'file> {
    bytes: &'file File,
    length: u64,
    chunk: &'file ColumnChunkMetaData,
}

/// What the header of a page says.
#[derive(Default)]
struct Header {
    kind: i32,
    unpacked: u64,
    packed: u64,
    values: u64,
    encoding: i32,
    /// Bytes of the newer kind of page before what is packed.
    levels: [u64; 2],
    plain: bool,
    bytes: u64,
}

impl Header {
    fn unpacked_levels(&self) -> u64 {
        self.levels[0] + self.levels[1]
    }
}

const INDEX: i32 = 1;
const DICTIONARY: i32 = 2;
const DELTA_LENGTH: i32 = 6;
const DELTA_TEXT: i32 = 7;

impl Chunk<'_> {
    fn look(&self) -> Result<Largest, &'static str> {
        let column = self.chunk.column_descr();
        if column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY && column.type_length() > VALUE_LIMIT {
            return Err(DAMAGED);
        }
        let (start, length) = self.chunk.byte_range();
        let end = start.checked_add(length).filter(|&end| end <= self.length).ok_or(DAMAGED)?;
        let mut largest = Largest::default();
        let mut at = start;
        while at < end {
            let header = self.header(at, end)?;
            at += header.bytes;
            if header.packed > end - at {
                return Err(DAMAGED);
            }
            self.weigh(&header, at, &mut largest)?;
            at += header.packed;
        }
        Ok(largest)
    }

    fn weigh(&self, header: &Header, at: u64, largest: &mut Largest) -> Result<(), &'static str> {
        let size = header.unpacked.max(header.packed);
        match header.kind {
            INDEX => return Ok(()),
            DICTIONARY => {
                // Every value of a dictionary takes room in its page.
                if header.values.saturating_mul(self.width()) > header.unpacked {
                    return Err(DAMAGED);
                }
                if size > DICTIONARY_LIMIT {
                    return Err(HEAVY);
                }
                largest.dictionary = largest.dictionary.max(size);
            }
            _ => {
                if matches!(header.encoding, DELTA_LENGTH | DELTA_TEXT) {
                    return Err(DELTA);
                }
                if size > PAGE_LIMIT {
                    return Err(HEAVY);
                }
                largest.page = largest.page.max(size);
                largest.densest = largest.densest.max(header.unpacked / header.values.max(1));
            }
        }
        self.unpack(header, at)
    }

    /// The least that a value takes in a dictionary.
    fn width(&self) -> u64 {
        match self.chunk.column_descr().physical_type() {
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.chunk.column_descr().type_length()).unwrap_or(1).max(1),
            _ => 4,
        }
    }

    fn header(&self, at: u64, end: u64) -> Result<Header, &'static str> {
        for limit in [HEADER_START, HEADER_LIMIT] {
            let count = usize::try_from(end - at).unwrap_or(usize::MAX).min(limit);
            let mut start = vec![0; count];
            private::read_exact_at(self.bytes, &mut start, at).map_err(|_| DAMAGED)?;
            if let Some(header) = header(&start) {
                return Ok(header);
            }
        }
        Err(DAMAGED)
    }

    /// Unpacks a page into nothing if its codec goes on until the packed bytes end, whatever the page claims.
    fn unpack(&self, header: &Header, at: u64) -> Result<(), &'static str> {
        let codec = self.chunk.compression();
        let bounded = !matches!(codec, Compression::GZIP(_) | Compression::BROTLI(_) | Compression::LZ4);
        if bounded || header.plain {
            return Ok(());
        }
        let levels = header.unpacked_levels();
        let claimed = header.unpacked.checked_sub(levels).ok_or(DAMAGED)?;
        let length = header.packed.checked_sub(levels).ok_or(DAMAGED)?;
        let mut packed = vec![0; usize::try_from(length).map_err(|_| DAMAGED)?];
        private::read_exact_at(self.bytes, &mut packed, at + levels).map_err(|_| DAMAGED)?;
        let count = |unpacked: &mut dyn Read| io::copy(&mut unpacked.take(claimed + 1), &mut io::sink());
        let found = match codec {
            Compression::GZIP(_) => count(&mut flate2::read::MultiGzDecoder::new(&packed[..])),
            Compression::BROTLI(_) => count(&mut brotli::Decompressor::new(&packed[..], 1 << 12)),
            // The older forms of this codec keep to the claim; what is no frame is read as one of them.
            _ => {
                return match count(&mut lz4_flex::frame::FrameDecoder::new(&packed[..])) {
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

/// Reads a header in which nothing is said twice, since readers differ in which of two they believe.
fn header(bytes: &[u8]) -> Option<Header> {
    let mut found = Header::default();
    let mut walk = Walk::new(bytes, HEADER_LIMIT);
    let mut said = Said::default();
    let mut parts = 0;
    walk.structure(&mut |walk, field, kind| {
        said.once(field)?;
        match field {
            1 => found.kind = walk.small(kind)?,
            2 => found.unpacked = u64::try_from(walk.small(kind)?).ok()?,
            3 => found.packed = u64::try_from(walk.small(kind)?).ok()?,
            5 | 7 | 8 if kind == STRUCTURE => {
                parts += 1;
                details(walk, field, &mut found)?;
            }
            5 | 7 | 8 => return None,
            _ => return Some(Seen::Passed),
        }
        Some(Seen::Read)
    })?;
    found.bytes = walk.walked() as u64;
    (parts <= 1).then_some(found)
}

/// The fields of a structure that were there.
#[derive(Default)]
struct Said(u64);

impl Said {
    fn once(&mut self, field: i64) -> Option<()> {
        let bit = 1_u64.checked_shl(u32::try_from(field).ok()?)?;
        let before = self.0;
        self.0 |= bit;
        (before & bit == 0).then_some(())
    }
}

/// The part of a header that belongs to its kind: 5 for a data page, 7 for a dictionary, 8 for the newer data page.
fn details(walk: &mut Walk<'_>, part: i64, found: &mut Header) -> Option<()> {
    let newer = part == 8;
    let mut said = Said::default();
    walk.structure(&mut |walk, field, kind| {
        said.once(field)?;
        match field {
            1 => found.values = u64::try_from(walk.small(kind)?).ok()?,
            2 if !newer => found.encoding = walk.small(kind)?,
            4 if newer => found.encoding = walk.small(kind)?,
            5 if newer => found.levels[0] = u64::try_from(walk.small(kind)?).ok()?,
            6 if newer => found.levels[1] = u64::try_from(walk.small(kind)?).ok()?,
            // The kind is the value: 1 is yes and 2 is no.
            7 if newer => found.plain = Some(kind).filter(|kind| matches!(kind, 1 | 2))? == 2,
            _ => return Some(Seen::Passed),
        }
        Some(Seen::Read)
    })
}
