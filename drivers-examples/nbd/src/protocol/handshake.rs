//! [`Handshake`]: the server's side of the fixed newstyle negotiation.
//!
//! ```text
//!   greeting ──► ClientFlags ──► OptionHeader ◄──────┐
//!                                 │    │             │ answered
//!                     data fits   │    │ data too    │
//!                                 ▼    ▼ long        │
//!                          OptionData  SkipData ─────┤
//!                                 └──────────────────┤
//!                                                    ▼
//!                                     Done: transmission, aborted, or a violation
//! ```
//!
//! Bytes go in by [`feed`](Handshake::feed) in pieces of any size; replies come out in the caller's buffer. At most one
//! option is answered a call, so that the caller sends the replies before it looks at the next option: a client that
//! sends without reading fills no memory here. Kept between calls is only the item being received, which is bounded by
//! [`KEPT_DATA`].

use super::constants::{
    FLAG_C_FIXED_NEWSTYLE, FLAG_C_NO_ZEROES, FLAG_FIXED_NEWSTYLE, FLAG_NO_ZEROES, INFO_BLOCK_SIZE, INFO_NAME,
    INIT_MAGIC, MAX_STRING, OPT_ABORT, OPT_EXPORT_NAME, OPT_GO, OPT_INFO, OPT_LIST, OPTION_MAGIC,
    REP_ERR_BLOCK_SIZE_REQD, REP_ERR_INVALID, REP_ERR_TOO_BIG, REP_ERR_UNKNOWN, REP_ERR_UNSUP,
};
use super::export::Export;
use super::option::{InfoQuery, Replies};
use super::violation::Violation;

/// The most data of an option that is kept: the longest name, and room for what is asked about it.
const KEPT_DATA: u32 = MAX_STRING as u32 + 512;
/// The most data of an option that is received at all, if only to be skipped.
const SKIPPED_DATA: u32 = 64 << 10;

/// What the server sends first.
pub(crate) fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&INIT_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES).to_be_bytes());
    bytes
}

/// What a call of [`Handshake::feed`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All input was taken; more is needed.
    NeedsInput,
    /// An option was answered; send the output, then feed what is left of the input.
    Answered,
    /// The export is chosen: after the output, what follows are requests.
    Transmission,
    /// The client has no further wish: send the output, then close.
    Aborted,
}

/// The negotiation with one client.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: State,
    /// What was received of the item that `state` waits for.
    item: Vec<u8>,
    no_zeroes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waiting for the client's flags.
    ClientFlags,
    /// Waiting for magic, option and length.
    OptionHeader,
    /// Waiting for the data of an option.
    OptionData { option: u32, length: u32 },
    /// Dropping the data of an option that is too long to be kept.
    SkipData { option: u32, left: u32 },
    /// Over; nothing is accepted any more.
    Done,
}

const FLAGS_LEN: usize = 4;
const HEADER_LEN: usize = 16;

impl Handshake {
    pub(crate) fn new() -> Self {
        Self { state: State::ClientFlags, item: Vec::new(), no_zeroes: false }
    }

    /// Takes bytes from the front of `input` (moving it on) and appends replies to `out`.
    ///
    /// # Errors
    /// [`Violation`] when the connection has to be closed; what is in `out` need not be sent.
    pub(crate) fn feed(
        &mut self,
        input: &mut &[u8],
        export: &Export,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Violation> {
        loop {
            match self.state {
                State::Done => return Ok(Progress::Aborted),
                State::ClientFlags => {
                    if !self.collect(input, FLAGS_LEN) {
                        return Ok(Progress::NeedsInput);
                    }
                    self.client_flags()?;
                }
                State::OptionHeader => {
                    if !self.collect(input, HEADER_LEN) {
                        return Ok(Progress::NeedsInput);
                    }
                    self.option_header()?;
                }
                State::OptionData { option, length } => {
                    if !self.collect(input, length as usize) {
                        return Ok(Progress::NeedsInput);
                    }
                    // Moved out for the call and put back empty, so that its room serves the next option.
                    let mut data = std::mem::take(&mut self.item);
                    self.state = State::OptionHeader;
                    let progress = self.option(option, &data, export, out);
                    data.clear();
                    self.item = data;
                    return progress;
                }
                State::SkipData { option, left } => {
                    let skipped = input.len().min(left as usize);
                    *input = &input[skipped..];
                    let left = left - skipped as u32;
                    if left > 0 {
                        self.state = State::SkipData { option, left };
                        return Ok(Progress::NeedsInput);
                    }
                    self.state = State::OptionHeader;
                    refuse_long(option, out);
                    return Ok(Progress::Answered);
                }
            }
        }
    }

    /// Moves bytes from the input to the item until it has `needed` of them; tells whether it has.
    fn collect(&mut self, input: &mut &[u8], needed: usize) -> bool {
        let missing = needed - self.item.len();
        let (taken, rest) = input.split_at(missing.min(input.len()));
        self.item.extend_from_slice(taken);
        *input = rest;
        self.item.len() == needed
    }

    fn client_flags(&mut self) -> Result<(), Violation> {
        let flags = u32::from_be_bytes(*self.item.first_chunk().expect("collected by the caller"));
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            self.state = State::Done;
            return Err(Violation::ClientFlags(flags));
        }
        // A client that does not claim the fixed form is answered in it all the same: it is free to send only
        // EXPORT_NAME, to which both forms answer alike.
        self.no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
        self.item.clear();
        self.state = State::OptionHeader;
        Ok(())
    }

    fn option_header(&mut self) -> Result<(), Violation> {
        let word = |at: usize| u32::from_be_bytes(*self.item[at..].first_chunk().expect("collected by the caller"));
        let magic = u64::from_be_bytes(*self.item.first_chunk().expect("collected by the caller"));
        let (option, length) = (word(8), word(12));
        self.item.clear();
        self.state = State::Done;
        if magic != OPTION_MAGIC {
            return Err(Violation::OptionMagic(magic));
        }
        // EXPORT_NAME has no refusal but closing, so its data is never worth skipping.
        let limit = if option == OPT_EXPORT_NAME { MAX_STRING as u32 } else { SKIPPED_DATA };
        if length > limit {
            return Err(Violation::OptionLength { option, length, limit });
        }
        self.state = if length > KEPT_DATA || !is_known(option) {
            State::SkipData { option, left: length }
        } else {
            State::OptionData { option, length }
        };
        Ok(())
    }

    fn option(&mut self, option: u32, data: &[u8], export: &Export, out: &mut Vec<u8>) -> Result<Progress, Violation> {
        let mut replies = Replies::to(option, out);
        match option {
            OPT_EXPORT_NAME => {
                self.state = State::Done;
                if !export.answers_to(data) {
                    return Err(Violation::UnknownExport(shown(data)));
                }
                self.export_name(export, out);
                Ok(Progress::Transmission)
            }
            OPT_ABORT => {
                replies.ack();
                self.state = State::Done;
                Ok(Progress::Aborted)
            }
            OPT_LIST if data.is_empty() => {
                replies.server(export);
                replies.ack();
                Ok(Progress::Answered)
            }
            OPT_LIST => {
                replies.error(REP_ERR_INVALID, "the LIST option takes no data");
                Ok(Progress::Answered)
            }
            // Only INFO and GO are left of the known ones.
            _ => {
                if inform(data, option == OPT_GO, export, &mut replies) && option == OPT_GO {
                    self.state = State::Done;
                    return Ok(Progress::Transmission);
                }
                Ok(Progress::Answered)
            }
        }
    }

    /// The reply to EXPORT_NAME, which has a form of its own.
    fn export_name(&self, export: &Export, out: &mut Vec<u8>) {
        out.extend_from_slice(&export.size.to_be_bytes());
        out.extend_from_slice(&export.transmission_flags().to_be_bytes());
        if !self.no_zeroes {
            out.extend_from_slice(&[0; 124]);
        }
    }
}

fn is_known(option: u32) -> bool {
    matches!(option, OPT_EXPORT_NAME | OPT_ABORT | OPT_LIST | OPT_INFO | OPT_GO)
}

/// The reply to an option whose data was skipped.
fn refuse_long(option: u32, out: &mut Vec<u8>) {
    let mut replies = Replies::to(option, out);
    if is_known(option) {
        replies.error(REP_ERR_TOO_BIG, "the data of the option is too long");
    } else {
        replies.error(REP_ERR_UNSUP, "this option is not supported");
    }
}

/// Answers INFO or GO; true when the answer is yes.
fn inform(data: &[u8], is_go: bool, export: &Export, replies: &mut Replies<'_>) -> bool {
    let Some(query) = InfoQuery::parse(data) else {
        replies.error(REP_ERR_INVALID, "the lengths in the data of the option do not add up");
        return false;
    };
    if !export.answers_to(query.name) {
        let text = format!("there is no export `{}` here; LIST names what there is", shown(query.name));
        replies.error(REP_ERR_UNKNOWN, &text);
        return false;
    }
    replies.info_export(export);
    if query.asks_for(INFO_NAME) {
        replies.info_name(export);
    }
    let told_block_size = query.asks_for(INFO_BLOCK_SIZE);
    let must_be_told = is_go && export.requires_block_size();
    if told_block_size || must_be_told {
        replies.info_block_size(export);
    }
    if must_be_told && !told_block_size {
        let text = format!("this export has blocks of {} bytes: ask for its block sizes", export.block_size);
        replies.error(REP_ERR_BLOCK_SIZE_REQD, &text);
        return false;
    }
    replies.ack();
    true
}

/// A name as sent by a client, made safe to show and cut to a length that a log can bear.
fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(200)]);
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
