//! `ioctl`: by request.
//!
//! A request number of the newer kind says in which direction a structure goes and how large it is. That is believed
//! of the families in [`TRUSTED`] alone: elsewhere numbers lie (some write though they say that they read), or the
//! structure holds pointers to more. Older numbers say nothing and stand in a table.

mod numbers;

use numbers::{TABLE, TRUSTED};

use super::survey::{Answer, EINVAL, Gap, Outcome, Survey, bytes_at, u32_in, u64_in};

const SIOCGIFCONF: u32 = 0x8912;
const FIEMAP: u32 = 0xc020_660b;
const PAGEMAP_SCAN: u32 = 0xc060_6610;
const PROCMAP_QUERY: u32 = 0xc068_6611;
const FIDEDUPERANGE: u32 = 0xc018_9436;

/// The pointer.
const ADDRESS: u8 = 2;

/// Structures count as written when the call fails, since many drivers copy them back all the same.
pub(super) fn ioctl(survey: &mut Survey) -> Answer {
    let request = survey.int(1);
    match request {
        _ if survey.was_refused() => Ok(()),
        SIOCGIFCONF => interface_list(survey),
        FIEMAP => extents(survey),
        PAGEMAP_SCAN => page_regions(survey),
        PROCMAP_QUERY => mapping(survey),
        FIDEDUPERANGE => deduplication(survey),
        _ => {
            let size = size_of_answer(request).ok_or(Gap::NotKnown)?;
            survey.report(survey.argument(ADDRESS), u64::from(size));
            Ok(())
        }
    }
}

/// How many bytes the request writes where its argument points to.
fn size_of_answer(request: u32) -> Option<u16> {
    match TABLE.binary_search_by_key(&request, |row| row.0) {
        Ok(index) => Some(TABLE[index].2),
        Err(_) => encoded_size(request),
    }
}

fn encoded_size(request: u32) -> Option<u16> {
    const WRITES_TO_GUEST: u32 = 2;
    let [number, family, ..] = request.to_le_bytes();
    let direction = request >> 30;
    let size = (request >> 16 & 0x3fff) as u16;
    let is_trusted = |&(trusted, first, last): &(u8, u8, u8)| trusted == family && (first..=last).contains(&number);
    if direction == 0 || !TRUSTED.iter().any(is_trusted) {
        return None;
    }
    Some(if direction & WRITES_TO_GUEST != 0 { size } else { 0 })
}

/// A length and, if it is not null, where to put that many bytes of interfaces.
fn interface_list(survey: &mut Survey) -> Answer {
    let address = survey.argument(ADDRESS);
    let list: [u8; 16] = bytes_at(survey.memory, address)?;
    survey.report(address, 4);
    if survey.may_have_written() {
        survey.report(u64_in(&list, 8), u64::from(u32_in(&list, 0)));
    }
    Ok(())
}

/// A header, followed by room for as many extents as it says. The count of those found is left in the header.
fn extents(survey: &mut Survey) -> Answer {
    const HEADER: u64 = 32;
    const EXTENT: u64 = 56;
    let address = survey.argument(ADDRESS);
    let header: [u8; HEADER as usize] = bytes_at(survey.memory, address)?;
    let (n_found, room) = (u64::from(u32_in(&header, 20)), u64::from(u32_in(&header, 24)));
    // EINVAL comes before anything is looked at, and the room may be any number then.
    let n_extents = match survey.outcome {
        Outcome::Done(_) => n_found.min(room),
        Outcome::Failed(EINVAL) => 0,
        Outcome::Faulted | Outcome::Failed(_) => room,
    };
    survey.report(address, HEADER + n_extents * EXTENT);
    Ok(())
}

/// The result counts the regions.
fn page_regions(survey: &mut Survey) -> Answer {
    const SIZE: u64 = 96;
    const REGION: u64 = 24;
    let address = survey.argument(ADDRESS);
    let wishes: [u8; SIZE as usize] = bytes_at(survey.memory, address)?;
    let n_regions = match survey.outcome {
        Outcome::Done(_) => survey.filled(u64_in(&wishes, 48)),
        Outcome::Faulted | Outcome::Failed(_) => u64_in(&wishes, 48),
    };
    survey.report(address, SIZE);
    survey.report(u64_in(&wishes, 40), n_regions.saturating_mul(REGION));
    Ok(())
}

/// The structure holds room for a name and for a build identifier; their lengths are replaced by those found.
fn mapping(survey: &mut Survey) -> Answer {
    const SIZE: u64 = 104;
    let address = survey.argument(ADDRESS);
    let query: [u8; SIZE as usize] = bytes_at(survey.memory, address)?;
    survey.report(address, SIZE);
    if survey.may_have_written() {
        survey.report(u64_in(&query, 88), u64::from(u32_in(&query, 80)));
        survey.report(u64_in(&query, 96), u64::from(u32_in(&query, 84)));
    }
    Ok(())
}

/// A header and one entry for each file that is compared.
fn deduplication(survey: &mut Survey) -> Answer {
    const HEADER: u64 = 24;
    const ENTRY: u64 = 32;
    let address = survey.argument(ADDRESS);
    let header: [u8; HEADER as usize] = bytes_at(survey.memory, address)?;
    let n_files = u64::from(u32_in(&header, 16) & 0xffff);
    survey.report(address, HEADER + n_files * ENTRY);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(TABLE.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn requests_of_both_kinds() {
        let check = |request, size| assert_eq!(size_of_answer(request), size, "{request:#x}");
        check(0x5401, Some(36)); // TCGETS
        check(0x5402, Some(0)); // TCSETS
        check(0x5413, Some(8)); // TIOCGWINSZ
        check(0x541b, Some(4)); // FIONREAD
        check(0x802c_542a, Some(44)); // TCGETS2
        check(0x402c_542b, Some(0)); // TCSETS2
        check(0x8004_5430, Some(4)); // TIOCGPTN
        check(0x8008_6601, Some(4)); // FS_IOC_GETFLAGS writes an `int`, whatever it says
        check(0x8008_1272, Some(8)); // BLKGETSIZE64
        check(0x8004_54d2, Some(40)); // TUNGETIFF says `unsigned int` and writes an `ifreq`
        check(0x400c_6615, Some(12)); // FS_IOC_GET_ENCRYPTION_POLICY says that it reads
        check(0x5475, None);
        check(0xc040_6400, None); // DRM_IOCTL_VERSION holds pointers
        check(0x2285, None); // SG_IO
        check(0x8946, None); // SIOCETHTOOL
    }
}
