//! Sockets.

use super::prepared::{Before, MESSAGE_HEADER_SIZE, Room, message_header};
use super::rules::{Output, Row, Size, bytes, decided, fixed, nothing, report, to, writes};
use super::survey::{Answer, EINVAL, Gap, Outcome, Survey, bytes_at, u32_in, u64_in};

const SOL_IP: u32 = 0;
const SOL_SOCKET: u32 = 1;
const SOL_TCP: u32 = 6;
const SOL_IPV6: u32 = 41;
const SO_GET_FILTER: u32 = 26;
const TCP_ZEROCOPY_RECEIVE: u32 = 35;
/// Replaces a whole table of packet rules; the old counters go to a pointer inside of the new table.
const SET_REPLACE: u32 = 64;

/// The fields of a message header from the length of the name to the flags; between them lies what is not written.
const HEADER_WRITTEN: (u64, u64) = (8, 44);

/// An address in argument 1, its length in argument 2.
const ADDRESS: &[Output] = &[to(1, Size::LengthAt { argument: 2 }), to(2, Size::LengthOf { room: 1 })];

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    nothing(41, "socket"),
    nothing(42, "connect"),
    writes(43, "accept", ADDRESS).noting(Before::Length(2)),
    nothing(44, "sendto"),
    decided(45, "recvfrom", recvfrom).noting(Before::Length(5)),
    nothing(46, "sendmsg"),
    decided(47, "recvmsg", recvmsg).noting(Before::Message),
    nothing(48, "shutdown"),
    nothing(49, "bind"),
    nothing(50, "listen"),
    writes(51, "getsockname", ADDRESS).noting(Before::Length(2)),
    writes(52, "getpeername", ADDRESS).noting(Before::Length(2)),
    writes(53, "socketpair", &[fixed(3, 8)]),
    decided(54, "setsockopt", setsockopt),
    decided(55, "getsockopt", getsockopt).noting(Before::Length(4)),
    writes(288, "accept4", ADDRESS).noting(Before::Length(2)),
    decided(299, "recvmmsg", recvmmsg).noting(Before::Messages),
    decided(307, "sendmmsg", sendmmsg),
];

const RECVFROM: &[Output] =
    &[to(1, bytes(2)), to(4, Size::LengthAt { argument: 5 }), to(5, Size::LengthOf { room: 4 })];

/// The length of the address is looked at last: if it is negative, the data are there in spite of EINVAL.
fn recvfrom(survey: &mut Survey) -> Answer {
    if survey.outcome == Outcome::Failed(EINVAL) {
        survey.report(survey.argument(1), survey.argument(2));
        return Ok(());
    }
    report(RECVFROM, survey)
}

fn recvmsg(survey: &mut Survey) -> Answer {
    let header = survey.argument(1);
    match survey.outcome {
        Outcome::Done(n_received) => report_message(survey, header, 0, n_received),
        Outcome::Faulted => report_message_room(survey, header, 0),
        Outcome::Failed(_) => Ok(()),
    }
}

fn recvmmsg(survey: &mut Survey) -> Answer {
    let all = u64::from(survey.int(2));
    for index in 0..survey.filled(all) {
        let header = message_header(survey.argument(1), index);
        match survey.outcome {
            Outcome::Done(_) => {
                let n_received = survey.u32_at(header.wrapping_add(MESSAGE_HEADER_SIZE))?;
                report_message(survey, header, index as usize, u64::from(n_received))?;
            }
            Outcome::Faulted | Outcome::Failed(_) => report_message_room(survey, header, index as usize)?,
        }
        survey.report(header.wrapping_add(MESSAGE_HEADER_SIZE), 4);
    }
    if survey.may_have_written() {
        survey.report(survey.argument(4), 16);
    }
    Ok(())
}

fn sendmmsg(survey: &mut Survey) -> Answer {
    for index in 0..survey.filled(u64::from(survey.int(2))) {
        let header = message_header(survey.argument(1), index);
        survey.report(header.wrapping_add(MESSAGE_HEADER_SIZE), 4);
    }
    Ok(())
}

fn setsockopt(survey: &mut Survey) -> Answer {
    match (survey.int(1), survey.int(2)) {
        (SOL_IP | SOL_IPV6, SET_REPLACE) => Err(Gap::NotKnown),
        _ => Ok(()),
    }
}

/// The whole room counts as written, since not every option tells how much of it was. Some options that fail for lack
/// of room tell how much they want.
fn getsockopt(survey: &mut Survey) -> Answer {
    let (value, length) = (survey.argument(3), survey.argument(4));
    survey.report(length, 4);
    if !survey.may_have_written() {
        return Ok(());
    }
    let room = survey.prepared.length().map_or_else(|| survey.u32_at(length), Ok)?;
    match (survey.int(1), survey.int(2)) {
        (SOL_TCP, TCP_ZEROCOPY_RECEIVE) => return Err(Gap::NotKnown),
        // Alone in counting filter instructions, of eight bytes each.
        (SOL_SOCKET, SO_GET_FILTER) => survey.report(value, u64::from(room) * 8),
        _ => survey.report(value, u64::from(room)),
    }
    Ok(())
}

/// Reports what receiving a message of `n_received` bytes wrote. The result can exceed the room for the data.
fn report_message(survey: &mut Survey, address: u64, index: usize, n_received: u64) -> Answer {
    let header: [u8; MESSAGE_HEADER_SIZE as usize] = bytes_at(survey.memory, address)?;
    let answer = Room { name: u32_in(&header, 8), control: u64_in(&header, 40) };
    let room = survey.prepared.room(index).unwrap_or(answer);
    survey.report_vectors(u64_in(&header, 16), u64_in(&header, 24), n_received)?;
    survey.report(u64_in(&header, 0), u64::from(room.name.min(answer.name)));
    survey.report(u64_in(&header, 32), room.control.min(answer.control));
    survey.report(address.wrapping_add(HEADER_WRITTEN.0), HEADER_WRITTEN.1);
    Ok(())
}

/// Reports all the room that a message header offers. A header that could not be read before the call offers none.
fn report_message_room(survey: &mut Survey, address: u64, index: usize) -> Answer {
    let Some(room) = survey.prepared.room(index) else { return Ok(()) };
    let header: [u8; MESSAGE_HEADER_SIZE as usize] = bytes_at(survey.memory, address)?;
    survey.report_vectors(u64_in(&header, 16), u64_in(&header, 24), u64::MAX)?;
    survey.report(u64_in(&header, 0), u64::from(room.name));
    survey.report(u64_in(&header, 32), room.control);
    survey.report(address.wrapping_add(HEADER_WRITTEN.0), HEADER_WRITTEN.1);
    Ok(())
}
