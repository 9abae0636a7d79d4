//! "Did you mean": the known word that is nearest to one that is not known.

/// The candidate that a writer of `word` most probably meant, if any is near enough.
///
/// Near is: the same but for case and for `-` against `_`; or at most a third of its letters (at least one) typed
/// wrong, left out, too many, or swapped; or the candidate begins with the word (three letters or more of it).
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let word = plain(word);
    let letters = word.chars().count();
    let limit = (letters / 3).max(1);
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let known = plain(candidate);
            let distance = strsim::damerau_levenshtein(&word, &known);
            let begins = letters >= 3 && known.starts_with(&word);
            (distance <= limit || begins).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean …?` for the end of a message, or nothing.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, candidates).map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}

/// The words as a list for a help line, in alphabetical order.
pub(crate) fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let mut words: Vec<_> = words.into_iter().map(|word| format!("`{word}`")).collect();
    words.sort();
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [&str; 4] = ["listen", "max_connections", "export", "size"];

    #[test]
    fn a_typing_mistake_finds_its_word() {
        for (typed, meant) in [
            ("lisen", "listen"),
            ("litsen", "listen"),
            ("LISTEN", "listen"),
            ("max-connections", "max_connections"),
            ("max", "max_connections"),
            ("sise", "size"),
        ] {
            assert_eq!(nearest(typed, WORDS), Some(meant), "{typed}");
        }
    }

    #[test]
    fn a_word_that_is_like_none_gets_no_suggestion() {
        for typed in ["colour", "x", "", "listening_port"] {
            assert_eq!(nearest(typed, WORDS), None, "{typed}");
        }
    }
}
