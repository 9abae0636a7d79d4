//! `--set DRIVER.KEY=VALUE`: single settings over those of the manifest.
//!
//! The value is a TOML value, or a bare string where it is none: `--set nbd.listen=127.0.0.1:0` needs no quotes.

use super::diagnostic::{Diagnostic, ManifestError};
use super::parse::{is_name, override_setting};
use super::source::Source;
use super::spec::Manifest;
use super::suggest::{did_you_mean, list};

const SHAPE: &str = "write `--set DRIVER.KEY=VALUE`, for example `--set nbd.listen=127.0.0.1:0`";

impl Manifest {
    /// Puts `--set` arguments over the settings of the manifest; later ones win.
    ///
    /// Whether the driver has such a key is checked by [`plan`](Manifest::plan), as for the manifest itself.
    ///
    /// # Errors
    /// All arguments that are malformed or name a driver that the manifest does not have.
    ///
    /// # Examples
    /// ```
    /// use fuchsine_host::Manifest;
    ///
    /// let mut manifest = Manifest::built_in();
    /// manifest.set(["nbd.listen=127.0.0.1:0", "ramdisk.size=1048576"])?;
    /// let error = manifest.set(["ramdsik.size=1"]).unwrap_err();
    /// assert!(error.to_string().contains("did you mean `ramdisk`?"));
    /// # Ok::<(), fuchsine_host::ManifestError>(())
    /// ```
    pub fn set<I>(&mut self, arguments: I) -> Result<(), ManifestError>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let errors = arguments.into_iter().filter_map(|argument| self.set_one(argument.into()).err()).collect();
        ManifestError::unless_empty(errors, ())
    }

    fn set_one(&mut self, argument: String) -> Result<(), Diagnostic> {
        let source = Source::override_argument(argument);
        let text = source.text();
        let malformed = |at: usize, what: &str| Diagnostic::at(source.place(at..text.len()), what).help(SHAPE);
        let Some(equals) = text.find('=') else {
            return Err(malformed(0, "there is no `=` in this setting"));
        };
        let left = text[..equals].trim_end();
        let Some((driver, key)) = left.split_once('.') else {
            return Err(Diagnostic::at(source.place(0..equals), "there is no `.` between driver and key").help(SHAPE));
        };
        let key_span = driver.len() + 1..left.len();
        if !is_name(driver) {
            return Err(Diagnostic::at(source.place(0..driver.len()), "this cannot name a driver").help(SHAPE));
        }
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(Diagnostic::at(source.place(key_span), "this cannot name a key").help(SHAPE));
        }
        let value_start = equals + 1 + (text[equals + 1..].len() - text[equals + 1..].trim_start().len());
        let value_span = value_start..value_start.max(text.trim_end().len());
        let Some(spec) = self.drivers.iter_mut().find(|spec| spec.name == driver) else {
            let hint = did_you_mean(driver, self.driver_names());
            let message = format!("the manifest has no driver `{driver}`{hint}");
            let help = format!("its drivers: {}", list(self.driver_names()));
            return Err(Diagnostic::at(source.place(0..driver.len()), message).help(help));
        };
        spec.config.insert(key.to_owned(), override_setting(&source, key_span, value_span)?);
        Ok(())
    }
}
