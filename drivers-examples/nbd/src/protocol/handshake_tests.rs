//! Goal: every way through the negotiation, in whole and in pieces; and that nothing a client sends does harm.
//! Method: scripts of client bytes, decoded replies; random bytes for the rest.

use proptest::prelude::*;

use super::*;
use crate::protocol::constants::{INFO_EXPORT, OPTION_REPLY_MAGIC, REP_ACK, REP_INFO, REP_SERVER};

fn export() -> Export {
    Export { name: "disk".into(), size: 1 << 20, block_size: 512, read_only: false }
}

fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend_from_slice(&option.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

fn info_data(name: &str, requests: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend_from_slice(&(requests.len() as u16).to_be_bytes());
    requests.iter().for_each(|request| data.extend_from_slice(&request.to_be_bytes()));
    data
}

fn flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

const FIXED: u32 = FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES;

/// What the server came to, and what it sent, after all bytes were fed in pieces of at most `piece` bytes.
fn run(export: &Export, script: &[Vec<u8>], piece: usize) -> (Result<Progress, Violation>, Vec<u8>, Vec<u8>) {
    let bytes = script.concat();
    let mut handshake = Handshake::new();
    let (mut out, mut fed) = (Vec::new(), 0);
    let mut last = Ok(Progress::NeedsInput);
    while fed < bytes.len() {
        let mut input = &bytes[fed..(fed + piece).min(bytes.len())];
        let before = input.len();
        last = handshake.feed(&mut input, export, &mut out);
        fed += before - input.len();
        if !matches!(last, Ok(Progress::NeedsInput | Progress::Answered)) {
            break;
        }
    }
    (last, out, bytes[fed..].to_vec())
}

/// The replies to options as (option, kind, data).
fn replies(mut out: &[u8]) -> Vec<(u32, u32, Vec<u8>)> {
    let mut found = Vec::new();
    while !out.is_empty() {
        assert_eq!(out[..8], OPTION_REPLY_MAGIC.to_be_bytes());
        let word = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        let length = word(16) as usize;
        found.push((word(8), word(12), out[20..20 + length].to_vec()));
        out = &out[20 + length..];
    }
    found
}

fn kinds(out: &[u8]) -> Vec<u32> {
    replies(out).into_iter().map(|(_, kind, _)| kind).collect()
}

#[test]
fn the_greeting_offers_the_fixed_newstyle() {
    assert_eq!(&greeting()[..16], b"NBDMAGICIHAVEOPT");
    assert_eq!(greeting()[16..], [0, 3]);
}

#[test]
fn go_tells_size_flags_and_block_sizes_and_leaves_the_rest_of_the_input() {
    let script = [flags(FIXED), option(OPT_GO, &info_data("disk", &[INFO_BLOCK_SIZE])), b"a request".to_vec()];
    for piece in 1..=64 {
        let (progress, out, mut rest) = run(&export(), &script, piece);
        assert_eq!(progress, Ok(Progress::Transmission), "in pieces of {piece}");
        let replies = replies(&out);
        assert_eq!(kinds(&out), [REP_INFO, REP_INFO, REP_ACK]);
        assert_eq!(replies[0].2[..2], INFO_EXPORT.to_be_bytes());
        assert_eq!(replies[0].2[2..10], (1u64 << 20).to_be_bytes());
        assert_eq!(replies[0].2[10..], export().transmission_flags().to_be_bytes());
        assert_eq!(replies[1].2, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
        rest.truncate(9);
        assert_eq!(rest, b"a request");
    }
}

#[test]
fn export_name_answers_in_its_own_form_with_and_without_zeroes() {
    let name = option(OPT_EXPORT_NAME, b"disk");
    let (progress, out, _) = run(&export(), &[flags(FIXED), name.clone()], 7);
    assert_eq!((progress, out.len()), (Ok(Progress::Transmission), 10));
    let (progress, out, _) = run(&export(), &[flags(FLAG_C_FIXED_NEWSTYLE), name], 7);
    assert_eq!((progress, out.len()), (Ok(Progress::Transmission), 134));
    assert_eq!(out[..8], (1u64 << 20).to_be_bytes());
}

#[test]
fn the_empty_name_is_the_default_export() {
    let (progress, _, _) = run(&export(), &[flags(FIXED), option(OPT_EXPORT_NAME, b"")], 64);
    assert_eq!(progress, Ok(Progress::Transmission));
    let (progress, out, _) = run(&export(), &[flags(FIXED), option(OPT_GO, &info_data("", &[INFO_NAME]))], 64);
    assert_eq!(progress, Ok(Progress::Transmission));
    assert_eq!(replies(&out)[1].2, b"\0\x01disk");
}

#[test]
fn list_names_the_export_and_info_does_not_enter_transmission() {
    let script = [
        flags(FIXED),
        option(OPT_LIST, b""),
        option(OPT_INFO, &info_data("disk", &[])),
        option(OPT_LIST, b"data"),
        option(OPT_ABORT, b""),
    ];
    let (progress, out, _) = run(&export(), &script, 3);
    assert_eq!(progress, Ok(Progress::Aborted));
    assert_eq!(kinds(&out), [REP_SERVER, REP_ACK, REP_INFO, REP_ACK, REP_ERR_INVALID, REP_ACK]);
    assert_eq!(replies(&out)[0].2, b"\0\0\0\x04disk");
}

#[test]
fn unknown_options_unknown_names_and_bad_data_are_answered_and_negotiation_goes_on() {
    let script = [
        flags(FIXED),
        option(5, b""),
        option(8, b""),
        option(10, &[0; 9000]),
        option(0x1234_5678, b"who knows"),
        option(OPT_GO, &info_data("nothing", &[])),
        option(OPT_GO, b"\0\0\0\xffdisk"),
        option(OPT_INFO, &[0; 10_000]),
        option(OPT_GO, &info_data("disk", &[])),
    ];
    let (progress, out, _) = run(&export(), &script, 1000);
    assert_eq!(progress, Ok(Progress::Transmission));
    let expected = [
        REP_ERR_UNSUP,
        REP_ERR_UNSUP,
        REP_ERR_UNSUP,
        REP_ERR_UNSUP,
        REP_ERR_UNKNOWN,
        REP_ERR_INVALID,
        REP_ERR_TOO_BIG,
        REP_INFO,
        REP_ACK,
    ];
    assert_eq!(kinds(&out), expected);
}

#[test]
fn big_blocks_must_be_asked_for() {
    let export = Export { block_size: 4096, ..export() };
    let without = option(OPT_GO, &info_data("disk", &[]));
    let with = option(OPT_GO, &info_data("disk", &[INFO_BLOCK_SIZE]));
    let (progress, out, _) = run(&export, &[flags(FIXED), without, with], 64);
    assert_eq!(progress, Ok(Progress::Transmission));
    assert_eq!(kinds(&out), [REP_INFO, REP_INFO, REP_ERR_BLOCK_SIZE_REQD, REP_INFO, REP_INFO, REP_ACK]);
}

#[test]
fn what_has_no_answer_is_a_violation_with_a_reason() {
    let violation = |script: &[Vec<u8>]| run(&export(), script, 64).0.unwrap_err();
    assert_eq!(violation(&[flags(4)]), Violation::ClientFlags(4));
    assert_eq!(
        violation(&[flags(FIXED), b"GET / HTTP/1.1\r\n".to_vec()]),
        Violation::OptionMagic(0x4745_5420_2f20_4854)
    );
    assert_eq!(
        violation(&[flags(FIXED), option(OPT_EXPORT_NAME, b"other\n")]),
        Violation::UnknownExport("other\u{fffd}".into())
    );
    let mut huge = option(OPT_LIST, b"");
    huge[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(
        violation(&[flags(FIXED), huge]),
        Violation::OptionLength { option: OPT_LIST, length: u32::MAX, limit: SKIPPED_DATA }
    );
    let mut long_name = option(OPT_EXPORT_NAME, b"");
    long_name[12..].copy_from_slice(&4097u32.to_be_bytes());
    assert!(matches!(violation(&[flags(FIXED), long_name]), Violation::OptionLength { limit: 4096, .. }));
}

#[test]
fn one_call_answers_one_option() {
    let bytes = [flags(FIXED), option(OPT_LIST, b""), option(OPT_LIST, b"")].concat();
    let (mut handshake, mut out, mut input) = (Handshake::new(), Vec::new(), &bytes[..]);
    assert_eq!(handshake.feed(&mut input, &export(), &mut out), Ok(Progress::Answered));
    assert_eq!(input.len(), 16);
    assert_eq!(kinds(&out), [REP_SERVER, REP_ACK]);
}

/// Bytes that get past the first checks often enough to reach what is behind them.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let data = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        ("[a-z]{0,5}", prop::collection::vec(0..5u16, 0..4)).prop_map(|(name, requests)| info_data(&name, &requests)),
        (0..70_000usize).prop_map(|len| vec![0; len]),
    ];
    let item = prop_oneof![
        8 => (0..12u32, data).prop_map(|(number, data)| option(number, &data)),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (0..12u32, any::<u32>()).prop_map(|(number, length)| {
            let mut bytes = option(number, b"");
            bytes[12..].copy_from_slice(&length.to_be_bytes());
            bytes
        }),
    ];
    (prop_oneof![Just(FIXED), Just(0), any::<u32>()], prop::collection::vec(item, 0..8))
        .prop_map(|(client, items)| [flags(client), items.concat()].concat())
}

proptest! {
    #[test]
    fn random_and_truncated_bytes_never_panic_and_never_make_it_hold_much(
        bytes in prop_oneof![plausible(), prop::collection::vec(any::<u8>(), 0..200)],
        pieces in prop::collection::vec(1..3000usize, 1..5),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes = &bytes[..cut.index(bytes.len() + 1)];
        let (mut handshake, mut fed, mut turn) = (Handshake::new(), 0, 0);
        while fed < bytes.len() {
            let mut out = Vec::new();
            let mut input = &bytes[fed..(fed + pieces[turn % pieces.len()]).min(bytes.len())];
            let before = input.len();
            let progress = handshake.feed(&mut input, &export(), &mut out);
            fed += before - input.len();
            turn += 1;
            prop_assert!(handshake.item.capacity() <= 2 * KEPT_DATA as usize, "holds {}", handshake.item.capacity());
            prop_assert!(out.len() <= 1024, "{} bytes of replies to one option", out.len());
            match progress {
                Ok(Progress::NeedsInput) => prop_assert!(input.is_empty()),
                Ok(Progress::Answered) => prop_assert!(!out.is_empty()),
                Ok(Progress::Transmission | Progress::Aborted) | Err(_) => break,
            }
        }
    }

    #[test]
    fn how_the_bytes_are_cut_makes_no_difference(bytes in plausible(), piece in 1..100usize) {
        let whole = run(&export(), std::slice::from_ref(&bytes), usize::MAX / 2);
        let cut = run(&export(), &[bytes], piece);
        prop_assert_eq!(whole, cut);
    }
}
