//! What to do with a request: a pure function from its head and the export to a [`Verdict`].

use super::constants::{
    CMD_DISC, CMD_FLAG_FUA, CMD_FLAG_NO_HOLE, CMD_FLUSH, CMD_READ, CMD_TRIM, CMD_WRITE, CMD_WRITE_ZEROES, MAX_PAYLOAD,
    NbdError,
};
use super::export::Export;
use super::request::Request;
use super::violation::Violation;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Done by the device; the range is within it and aligned.
    Perform(Operation),
    /// Answered with success at once: it concerns no byte.
    Nothing,
    /// Answered with an error; `payload` bytes that follow in the stream are dropped first.
    Refuse { error: NbdError, payload: u32 },
    /// The client takes its leave; what is under way is finished first.
    Disconnect,
    /// The connection cannot go on.
    Close(Violation),
}

/// What the device is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write {
        fua: bool,
    },
    Flush,
    Trim {
        fua: bool,
    },
    /// `keep` is the client's NO_HOLE: the space stays allocated.
    WriteZeroes {
        fua: bool,
        keep: bool,
    },
}

/// Judges a request by the rules of the protocol document; where it leaves a choice, the strict one is taken.
pub(crate) fn judge(request: &Request, export: &Export) -> Verdict {
    let fua = request.flags & CMD_FLAG_FUA != 0;
    let keep = request.flags & CMD_FLAG_NO_HOLE != 0;
    match request.command {
        CMD_READ => read(request, export),
        CMD_WRITE => write(request, export),
        CMD_DISC => Verdict::Disconnect,
        CMD_FLUSH if request.offset != 0 || request.length != 0 => refuse(NbdError::Invalid),
        CMD_FLUSH => flagged(request, CMD_FLAG_FUA, Verdict::Perform(Operation::Flush)),
        CMD_TRIM => {
            let verdict = change(request, export, NbdError::Invalid, Operation::Trim { fua });
            flagged(request, CMD_FLAG_FUA, verdict)
        }
        CMD_WRITE_ZEROES => {
            let verdict = change(request, export, NbdError::NoSpace, Operation::WriteZeroes { fua, keep });
            flagged(request, CMD_FLAG_FUA | CMD_FLAG_NO_HOLE, verdict)
        }
        _ => refuse(NbdError::Invalid),
    }
}

fn refuse(error: NbdError) -> Verdict {
    Verdict::Refuse { error, payload: 0 }
}

/// The verdict, unless the request carries a flag that its command does not have.
fn flagged(request: &Request, allowed: u16, verdict: Verdict) -> Verdict {
    if request.flags & !allowed != 0 { refuse(NbdError::Invalid) } else { verdict }
}

fn read(request: &Request, export: &Export) -> Verdict {
    let Request { offset, length, .. } = *request;
    let verdict = if !export.contains(offset, length) || !export.is_aligned(offset, length) {
        refuse(NbdError::Invalid)
    } else if length > MAX_PAYLOAD {
        refuse(NbdError::Overflow)
    } else if length == 0 {
        Verdict::Nothing
    } else {
        Verdict::Perform(Operation::Read)
    };
    // FUA says nothing about a read; the protocol wants it accepted.
    flagged(request, CMD_FLAG_FUA, verdict)
}

fn write(request: &Request, export: &Export) -> Verdict {
    if request.length > MAX_PAYLOAD {
        return Verdict::Close(Violation::WriteTooLong(request.length));
    }
    let operation = Operation::Write { fua: request.flags & CMD_FLAG_FUA != 0 };
    match flagged(request, CMD_FLAG_FUA, change(request, export, NbdError::NoSpace, operation)) {
        Verdict::Refuse { error, .. } => Verdict::Refuse { error, payload: request.length },
        verdict => verdict,
    }
}

/// What all that change the device have in common; `outside` is the error past its end.
fn change(request: &Request, export: &Export, outside: NbdError, operation: Operation) -> Verdict {
    let Request { offset, length, .. } = *request;
    if export.read_only {
        refuse(NbdError::Perm)
    } else if !export.contains(offset, length) {
        refuse(outside)
    } else if !export.is_aligned(offset, length) {
        refuse(NbdError::Invalid)
    } else if length == 0 {
        Verdict::Nothing
    } else {
        Verdict::Perform(operation)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SIZE: u64 = 64 << 20;

    fn export() -> Export {
        Export { name: "disk".into(), size: SIZE, block_size: 512, read_only: false }
    }

    fn verdict(command: u16, flags: u16, offset: u64, length: u32) -> Verdict {
        judge(&Request { flags, command, cookie: 7, offset, length }, &export())
    }

    #[track_caller]
    fn refused(verdict: Verdict, error: NbdError, payload: u32) {
        assert_eq!(verdict, Verdict::Refuse { error, payload });
    }

    #[test]
    fn requests_within_the_device_are_performed() {
        assert_eq!(verdict(CMD_READ, 0, SIZE - 512, 512), Verdict::Perform(Operation::Read));
        assert_eq!(verdict(CMD_READ, CMD_FLAG_FUA, 0, MAX_PAYLOAD), Verdict::Perform(Operation::Read));
        assert_eq!(verdict(CMD_WRITE, CMD_FLAG_FUA, 0, 512), Verdict::Perform(Operation::Write { fua: true }));
        assert_eq!(verdict(CMD_FLUSH, 0, 0, 0), Verdict::Perform(Operation::Flush));
        assert_eq!(verdict(CMD_TRIM, 0, 0, SIZE as u32), Verdict::Perform(Operation::Trim { fua: false }));
        let zeroes = Operation::WriteZeroes { fua: true, keep: true };
        assert_eq!(verdict(CMD_WRITE_ZEROES, 3, 0, SIZE as u32), Verdict::Perform(zeroes));
        assert_eq!(verdict(CMD_DISC, 0, 0, 0), Verdict::Disconnect);
    }

    #[test]
    fn outside_of_the_device_is_einval_to_readers_and_enospc_to_writers() {
        refused(verdict(CMD_READ, 0, SIZE, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_READ, 0, u64::MAX - 511, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_TRIM, 0, SIZE - 512, 1024), NbdError::Invalid, 0);
        refused(verdict(CMD_WRITE, 0, SIZE, 512), NbdError::NoSpace, 512);
        refused(verdict(CMD_WRITE, 0, u64::MAX, 512), NbdError::NoSpace, 512);
        refused(verdict(CMD_WRITE_ZEROES, 0, SIZE, 512), NbdError::NoSpace, 0);
    }

    #[test]
    fn lengths_over_the_limit_are_eoverflow_to_readers_and_close_on_writers() {
        refused(verdict(CMD_READ, 0, 0, MAX_PAYLOAD + 512), NbdError::Overflow, 0);
        refused(verdict(CMD_READ, 0, 0, u32::MAX), NbdError::Invalid, 0);
        let close = Verdict::Close(Violation::WriteTooLong(u32::MAX));
        assert_eq!(verdict(CMD_WRITE, 0, 0, u32::MAX), close);
        assert_eq!(verdict(CMD_WRITE, 0xffff, u64::MAX, u32::MAX), close);
    }

    #[test]
    fn what_does_not_end_at_a_block_is_einval() {
        refused(verdict(CMD_READ, 0, 1, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_WRITE, 0, 0, 100), NbdError::Invalid, 100);
        refused(verdict(CMD_TRIM, 0, 256, 256), NbdError::Invalid, 0);
    }

    #[test]
    fn unknown_commands_and_flags_are_einval() {
        for command in [5, 7, 8, 0xffff] {
            refused(verdict(command, 0, 0, 512), NbdError::Invalid, 0);
        }
        refused(verdict(CMD_READ, 4, 0, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_WRITE, CMD_FLAG_NO_HOLE, 0, 512), NbdError::Invalid, 512);
        refused(verdict(CMD_TRIM, CMD_FLAG_NO_HOLE, 0, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_WRITE_ZEROES, 1 << 4, 0, 512), NbdError::Invalid, 0);
        refused(verdict(CMD_FLUSH, 0, 512, 0), NbdError::Invalid, 0);
        refused(verdict(CMD_FLUSH, 2, 0, 0), NbdError::Invalid, 0);
    }

    #[test]
    fn a_length_of_zero_is_answered_at_once() {
        for command in [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
            assert_eq!(verdict(command, 0, SIZE, 0), Verdict::Nothing);
        }
    }

    #[test]
    fn a_read_only_export_answers_eperm_to_whatever_would_change_it() {
        let export = Export { read_only: true, ..export() };
        for (command, payload) in [(CMD_WRITE, 512), (CMD_TRIM, 0), (CMD_WRITE_ZEROES, 0)] {
            let request = Request { flags: 0, command, cookie: 0, offset: 0, length: 512 };
            refused(judge(&request, &export), NbdError::Perm, payload);
        }
    }

    proptest! {
        #[test]
        fn whatever_is_performed_lies_within_the_device_and_payloads_stay_under_the_limit(
            command in 0..10u16,
            flags in prop_oneof![Just(0u16), any::<u16>()],
            offset in prop_oneof![0..SIZE * 2, any::<u64>()],
            length in any::<u32>(),
        ) {
            match verdict(command, flags, offset, length) {
                Verdict::Perform(operation) => {
                    prop_assert!(offset + u64::from(length) <= SIZE);
                    let has_payload = matches!(operation, Operation::Read | Operation::Write { .. });
                    prop_assert!(!has_payload || length <= MAX_PAYLOAD);
                }
                Verdict::Refuse { payload, .. } => prop_assert!(payload <= MAX_PAYLOAD),
                Verdict::Nothing | Verdict::Disconnect | Verdict::Close(_) => {}
            }
        }
    }
}
