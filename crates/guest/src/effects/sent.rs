//! Which bytes of guest memory a call has sent out, so that a recorder can keep the guest's output.
//!
//! Calls that send from memory by copying are here. Not here: what goes from file to file (`sendfile`, `splice`), what
//! goes out later (`io_submit`, io_uring), and `vmsplice`, whose direction depends on the descriptor.

use super::prepared::{MESSAGE_HEADER_SIZE, message_header};
use super::survey::{Answer, bytes_at, report, u32_at, u64_in, vectors};
use super::{Call, Memory, Span, Unknown};

/// Hands each span that the finished `call` sent to `each`, in the order of sending; none if it sends nothing or
/// failed. Fails if the memory that says where the data lie cannot be read.
pub fn sent(call: &Call, memory: &dyn Memory, each: &mut dyn FnMut(Span)) -> Result<(), Unknown> {
    report_sent(call, memory, each).map_err(|_| Unknown)
}

fn report_sent(call: &Call, memory: &dyn Memory, each: &mut dyn FnMut(Span)) -> Answer {
    let Ok(n_sent) = u64::try_from(call.result) else { return Ok(()) };
    let [_, data, count, ..] = call.arguments;
    match call.number as u32 {
        // write, pwrite64, sendto
        1 | 18 | 44 => report(data, n_sent.min(count), each),
        // writev, pwritev, pwritev2
        20 | 296 | 328 => vectors(memory, data, count, n_sent, each)?,
        // sendmsg
        46 => message(memory, data, n_sent, each)?,
        // sendmmsg
        307 => {
            for index in 0..n_sent.min(u64::from(count as u32)) {
                let header = message_header(data, index);
                let length = u32_at(memory, header.wrapping_add(MESSAGE_HEADER_SIZE))?;
                message(memory, header, u64::from(length), each)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn message(memory: &dyn Memory, header: u64, n_sent: u64, each: &mut dyn FnMut(Span)) -> Answer {
    let header: [u8; MESSAGE_HEADER_SIZE as usize] = bytes_at(memory, header)?;
    vectors(memory, u64_in(&header, 16), u64_in(&header, 24), n_sent, each)
}
