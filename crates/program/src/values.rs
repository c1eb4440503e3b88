//! Values as text for people: short, and never longer than a line or two.

use crate::evaluate::Target;
use crate::space::GuestAddress;
use crate::types::{BitRange, Enumerator, Field, Type, TypeId, TypeKind, Variants};
use crate::unwind::{CodeAddress, CodeAddressKind, Memory};
use crate::variables::{Scope, Variables};

/// Longer texts are cut.
const MAX_TEXT: usize = 240;
/// Of an array, this many elements are shown; of a structure, this many fields.
const MAX_PARTS: usize = 12;
/// Of a string, this many bytes are shown.
const MAX_STRING: u64 = 64;
/// Libraries wrap the pointer of a string in fewer structures.
const MAX_WRAPPERS: usize = 64;

/// An integer out of its bytes, lowest first; of a bit field, out of its bits.
pub(crate) fn integer(bytes: &[u8], bits: Option<BitRange>, signed: bool) -> i128 {
    let mut whole = [0; 16];
    let length = bytes.len().min(16);
    whole[..length].copy_from_slice(&bytes[..length]);
    let (start, count) = match bits {
        Some(bits) => (bits.start.min(127), bits.count),
        None => (0, 8 * length as u64),
    };
    let unused = 128 - count.clamp(1, 128) as u32;
    let shifted = (u128::from_le_bytes(whole) >> start) << unused;
    if count == 0 {
        return 0;
    }
    if signed { shifted as i128 >> unused } else { (shifted >> unused) as i128 }
}

impl Variables {
    /// The value that an expression names, if it can be read.
    pub fn format_target(&self, target: &Target, scope: &Scope<'_>) -> Option<String> {
        let bytes = target.place.read(target.size?, scope.registers, scope.memory)?;
        let writer = Writer { variables: self, memory: scope.memory };
        let text = match target.type_id {
            Some(type_id) => writer.value(type_id, &bytes, target.bits, Level::Top),
            None => integer(&bytes, None, false).to_string(),
        };
        Some(cut(text, MAX_TEXT))
    }

    /// A value of a type, given its bytes. With memory, strings that it points at are shown too.
    pub fn format_value(&self, type_id: TypeId, bytes: &[u8], memory: Option<&dyn Memory>) -> String {
        cut(Writer { variables: self, memory }.value(type_id, bytes, None, Level::Top), MAX_TEXT)
    }
}

/// What is inside a structure or array is shown one level deep.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Top,
    Inside,
}

struct Writer<'a> {
    variables: &'a Variables,
    memory: Option<&'a dyn Memory>,
}

impl Writer<'_> {
    fn value(&self, type_id: TypeId, bytes: &[u8], bits: Option<BitRange>, level: Level) -> String {
        let found = self.variables.type_of(type_id);
        let size = usize::try_from(found.size.unwrap_or(0)).unwrap_or(usize::MAX);
        if bits.is_none() && bytes.len() < size {
            return "?".to_owned();
        }
        let exact = if found.size.is_some() { &bytes[..size.min(bytes.len())] } else { bytes };
        match &found.kind {
            TypeKind::Integer { signed } => integer(exact, bits, *signed).to_string(),
            TypeKind::Boolean => match integer(exact, bits, false) {
                0 => "false".to_owned(),
                1 => "true".to_owned(),
                other => other.to_string(),
            },
            TypeKind::Character { signed } => character(&found, integer(exact, bits, *signed)),
            TypeKind::Float => float(exact),
            TypeKind::Enumeration { enumerators } => enumerator(enumerators, exact, bits),
            TypeKind::Pointer { target, .. } => self.pointer(*target, integer(exact, None, false) as u64),
            TypeKind::Array { element, count } => self.array(*element, *count, bytes, level),
            TypeKind::Structure { .. } | TypeKind::Union { .. } => {
                self.string_object(&found, exact).unwrap_or_else(|| self.structure(found.fields(), exact, level))
            }
            TypeKind::Variants(variants) => self.variant(variants, exact, level),
            TypeKind::Void | TypeKind::Function | TypeKind::Unknown => "?".to_owned(),
        }
    }

    fn pointer(&self, target: TypeId, value: u64) -> String {
        if value == 0 {
            return "NULL".to_owned();
        }
        let target = self.variables.type_of(target);
        if let TypeKind::Character { .. } = target.kind
            && let Some(text) = self.text_at(value, None)
        {
            return format!("{value:#x} {text}");
        }
        match self.symbol(value, target.size.unwrap_or(1)) {
            Some(name) => format!("{value:#x} <{name}>"),
            None => format!("{value:#x}"),
        }
    }

    /// The function or the variable that a pointer to `size` bytes points at.
    fn symbol(&self, address: u64, size: u64) -> Option<String> {
        let function = || {
            let code = CodeAddress { pc: address, kind: CodeAddressKind::Exact };
            let (name, start) = self.variables.function_at(code)?;
            Some(with_offset(name, address.wrapping_sub(start.0)))
        };
        let global = || {
            let described = self.variables.describe(GuestAddress(address), size)?;
            Some(with_offset(described.path, described.offset))
        };
        function().or_else(global)
    }

    /// Text that ends at a zero byte, or after `length`.
    fn text_at(&self, address: u64, length: Option<u64>) -> Option<String> {
        let memory = self.memory?;
        let wanted = length.unwrap_or(MAX_STRING).min(MAX_STRING);
        let mut bytes = Vec::new();
        for position in 0..wanted {
            let mut byte = [0];
            if !memory.read(address.wrapping_add(position), &mut byte) {
                break;
            }
            if byte[0] == 0 && length.is_none() {
                return Some(quoted(&bytes, false));
            }
            bytes.push(byte[0]);
        }
        let complete = length == Some(bytes.len() as u64);
        (!bytes.is_empty() || complete).then(|| quoted(&bytes, !complete))
    }

    fn array(&self, element: TypeId, count: Option<u64>, bytes: &[u8], level: Level) -> String {
        let found = self.variables.type_of(element);
        let Some(size) = found.size.and_then(|size| usize::try_from(size).ok()).filter(|size| *size > 0) else {
            return "{…}".to_owned();
        };
        if let (TypeKind::Character { .. }, 1) = (&found.kind, size) {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            let shown = end.min(MAX_STRING as usize);
            return quoted(&bytes[..shown], shown < end);
        }
        if level == Level::Inside {
            return "{…}".to_owned();
        }
        let count = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX).min(bytes.len() / size);
        let parts = bytes.chunks_exact(size).take(count.min(MAX_PARTS));
        braces(parts.map(|part| self.value(element, part, None, Level::Inside)), count > MAX_PARTS)
    }

    fn structure(&self, fields: &[Field], bytes: &[u8], level: Level) -> String {
        match (level, fields) {
            (_, []) => "{}".to_owned(),
            (Level::Inside, _) => "{…}".to_owned(),
            (Level::Top, _) => {
                let parts = fields.iter().take(MAX_PARTS).map(|field| {
                    let value = self.field(field, bytes);
                    match &field.name {
                        Some(name) => format!("{name} = {value}"),
                        None => value,
                    }
                });
                braces(parts, fields.len() > MAX_PARTS)
            }
        }
    }

    fn field(&self, field: &Field, bytes: &[u8]) -> String {
        match part(bytes, field.offset) {
            Some(bytes) => {
                let end = field.bits.map_or(bytes.len(), |bits| (bits.bytes() as usize).min(bytes.len()));
                self.value(field.type_id, &bytes[..end], field.bits, Level::Inside)
            }
            None => "?".to_owned(),
        }
    }

    fn variant(&self, variants: &Variants, bytes: &[u8], level: Level) -> String {
        let discriminant = variants.discriminant.as_ref().and_then(|field| {
            let size = usize::try_from(self.variables.type_of(field.type_id).size?).ok()?;
            Some(integer(part(bytes, field.offset)?.get(..size)?, None, false) as u128)
        });
        let size = variants.discriminant.as_ref().and_then(|field| self.variables.type_of(field.type_id).size);
        let mask = u128::MAX >> 128u64.saturating_sub(8 * size.unwrap_or(16).min(16)).min(127);
        let chosen = variants
            .variants
            .iter()
            .find(|variant| discriminant.is_some() && variant.value.map(|value| value & mask) == discriminant);
        let Some(chosen) = chosen.or_else(|| variants.variants.iter().find(|variant| variant.value.is_none())) else {
            return "?".to_owned();
        };
        let name = chosen.field.name.as_deref().unwrap_or("?");
        let content = self.variables.type_of(chosen.field.type_id);
        match (content.fields(), part(bytes, chosen.field.offset)) {
            ([], _) | (_, None) => name.to_owned(),
            (fields, Some(bytes)) => format!("{name} {}", self.structure(fields, bytes, level)),
        }
    }

    /// The text of the string types of Rust and C++.
    fn string_object(&self, found: &Type, bytes: &[u8]) -> Option<String> {
        let named = |name: &str| found.fields().iter().find(|field| field.name.as_deref() == Some(name));
        let (pointer_field, length_path): (&Field, &[&str]) = match found.name.as_str() {
            "&str" | "&mut str" => (named("data_ptr")?, &["length"]),
            "alloc::string::String" => (named("vec")?, &["vec", "len"]),
            // `std::string` has many names.
            _ => (named("_M_dataplus")?, &["_M_string_length"]),
        };
        let pointer = self.first_pointer(pointer_field.type_id, part(bytes, pointer_field.offset)?)?;
        self.text_at(pointer, Some(self.length(found, bytes, length_path)?))
    }

    fn length(&self, found: &Type, bytes: &[u8], path: &[&str]) -> Option<u64> {
        let (name, rest) = path.split_first()?;
        let field = found.fields().iter().find(|field| field.name.as_deref() == Some(*name))?;
        let inner = part(bytes, field.offset)?;
        match rest {
            [] => Some(integer(inner.get(..8)?, None, false) as u64),
            rest => self.length(&self.variables.type_of(field.type_id), inner, rest),
        }
    }

    /// The pointer that a structure starts with, however deep it is wrapped.
    fn first_pointer(&self, type_id: TypeId, bytes: &[u8]) -> Option<u64> {
        let mut waiting = vec![(type_id, bytes)];
        for _ in 0..MAX_WRAPPERS {
            let (type_id, bytes) = waiting.pop()?;
            let found = self.variables.type_of(type_id);
            if let TypeKind::Pointer { .. } = found.kind {
                return Some(integer(bytes.get(..8)?, None, false) as u64);
            }
            let inner = |field: &Field| Some((field.type_id, part(bytes, field.offset)?));
            waiting.extend(found.fields().iter().take(MAX_PARTS).rev().filter_map(inner));
        }
        None
    }
}

fn part(bytes: &[u8], offset: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(offset).ok()?..)
}

fn braces(parts: impl Iterator<Item = String>, more: bool) -> String {
    let mut parts: Vec<String> = parts.collect();
    if more {
        parts.push("…".to_owned());
    }
    format!("{{{}}}", parts.join(", "))
}

fn with_offset(name: String, offset: u64) -> String {
    if offset == 0 { name } else { format!("{name}+{offset}") }
}

/// A letter of one byte has a number that matters too; one of four bytes is only a letter.
fn character(found: &Type, value: i128) -> String {
    let letter = u32::try_from(value).ok().and_then(char::from_u32);
    match (found.size, letter) {
        (Some(1), _) => format!("{value} '{}'", (value as u8).escape_ascii()),
        (_, Some(letter)) => format!("'{}'", letter.escape_debug()),
        (_, None) => value.to_string(),
    }
}

fn enumerator(enumerators: &[Enumerator], bytes: &[u8], bits: Option<BitRange>) -> String {
    // Which sign the values have does not matter when as many bits as are stored are compared.
    let stored = integer(bytes, bits, false);
    let stored_bits = bits.map_or(8 * bytes.len() as u64, |bits| bits.count).clamp(1, 127);
    let mask = (1i128 << stored_bits) - 1;
    let named = enumerators.iter().find(|enumerator| enumerator.value & mask == stored & mask);
    named.map_or_else(|| stored.to_string(), |enumerator| enumerator.name.clone())
}

fn float(bytes: &[u8]) -> String {
    match *bytes {
        [a, b, c, d] => format!("{:?}", f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => format!("{:?}", f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        ref long if long.len() >= 10 => format!("{:?}", extended(long)),
        _ => "?".to_owned(),
    }
}

/// x86's `long double`: 64 bits of significand, 15 of exponent, a sign. Rounded.
fn extended(bytes: &[u8]) -> f64 {
    let significand = integer(&bytes[..8], None, false) as u64;
    let top = integer(&bytes[8..10], None, false) as i32;
    let (sign, exponent) = (if top & 0x8000 == 0 { 1.0 } else { -1.0 }, top & 0x7fff);
    if exponent == 0x7fff {
        return if significand << 1 == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    // Halved twice, since a single power can leave the range that the product is still in.
    let power = exponent - 16383 - 63;
    sign * significand as f64 * 2f64.powi(power / 2) * 2f64.powi(power - power / 2)
}

fn quoted(bytes: &[u8], more: bool) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        text.extend(chunk.valid().chars().flat_map(escaped));
        text.extend(chunk.invalid().iter().flat_map(|byte| byte.escape_ascii()).map(char::from));
    }
    text.push('"');
    if more {
        text.push('…');
    }
    text
}

fn escaped(letter: char) -> Vec<char> {
    if letter == '\'' { vec![letter] } else { letter.escape_debug().collect() }
}

fn cut(text: String, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_width_and_sign() {
        assert_eq!(integer(&[0xff], None, true), -1);
        assert_eq!(integer(&[0xff], None, false), 255);
        assert_eq!(integer(&[0, 0x80], None, true), -32768);
        assert_eq!(integer(&[0xff; 8], None, false), i128::from(u64::MAX));
        assert_eq!(integer(&[0xff; 16], None, true), -1);
        assert_eq!(integer(&[], None, true), 0);
        let bits = |start, count| Some(BitRange { start, count });
        assert_eq!(integer(&[0b1011_0100], bits(2, 3), false), 5);
        assert_eq!(integer(&[0b1011_0100], bits(2, 3), true), -3);
        assert_eq!(integer(&[0x80, 0x01], bits(7, 2), false), 3);
        assert_eq!(integer(&[1], bits(0, 0), true), 0);
    }

    #[test]
    fn long_doubles() {
        let one = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xff, 0x3f];
        assert_eq!(extended(&one), 1.0);
        let minus_half = [0, 0, 0, 0, 0, 0, 0, 0x80, 0xfe, 0xbf];
        assert_eq!(extended(&minus_half), -0.5);
    }

    #[test]
    fn texts_are_quoted_and_cut() {
        assert_eq!(quoted(b"it's \"so\"\n\xff", false), r#""it's \"so\"\n\xff""#);
        assert_eq!(cut("x".repeat(300), MAX_TEXT).chars().count(), MAX_TEXT + 1);
    }
}
