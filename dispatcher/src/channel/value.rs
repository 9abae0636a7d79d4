//! Values in messages: any `Send` value, its type erased, on its way to a reader of the same image.
//!
//! An *image* is one copy of this library in the process: the program has one, and so has each module that was linked
//! apart from it. Types of two images are different types even if they have one name and one source, so a value says which
//! image it is of, and only that one takes it out. It is dropped by the code that came with it, wherever that happens.

use std::any::Any;
use std::fmt;

use crate::sync::Mutex;

/// One copy of this library in the process.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Image(usize);

impl Image {
    /// The one that this code is in.
    fn own() -> Self {
        // Each copy has a static of its own, so its address tells them apart.
        static HERE: u8 = 0;
        Image((&raw const HERE).addr())
    }
}

/// A value in a message, its type erased.
pub struct Value {
    image: Image,
    /// The lock is never taken by two: it makes a `Send` value shareable, so that a message may be borrowed on any
    /// thread.
    inner: Mutex<Box<dyn Carried>>,
}

/// Any `Send` value that can tell what it is.
trait Carried: Any + Send {
    fn type_name(&self) -> &'static str;
}

impl<T: Any + Send> Carried for T {
    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }
}

impl Value {
    /// Erases the type.
    pub(super) fn new<T: Send + 'static>(value: T) -> Self {
        Value { image: Image::own(), inner: Mutex::new(Box::new(value)) }
    }

    /// A value as it would come from another image.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn of_another_image<T: Send + 'static>(value: T) -> Self {
        Value { image: Image(Image::own().0 + 1), ..Value::new(value) }
    }

    /// The value as what it was.
    ///
    /// # Errors
    /// `self`, when it is of another type, or of another image of the process (a module that was linked apart).
    pub fn downcast<T: Send + 'static>(self) -> Result<T, Value> {
        let Value { image, inner } = self;
        let inner = inner.into_inner();
        let is_it = image == Image::own() && (&*inner as &dyn Any).is::<T>();
        let any: Box<dyn Any> = if is_it { inner } else { return Err(Value { image, inner: Mutex::new(inner) }) };
        match any.downcast::<T>() {
            Ok(value) => Ok(*value),
            Err(_) => unreachable!("the type was compared a moment ago"),
        }
    }

    /// Whether it is of the image that asks.
    pub fn is_of_this_image(&self) -> bool {
        self.image == Image::own()
    }

    /// The name of its type, for people.
    pub fn type_name(&self) -> &'static str {
        // The box's own type would implement the trait as well: ask what is inside.
        (**self.inner.lock()).type_name()
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Value").field(&self.type_name()).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::sync::Arc;

    #[test]
    fn a_value_of_another_image_stays_closed_and_is_dropped_once() {
        let held = Arc::new(7);
        let foreign = Value::of_another_image(Arc::clone(&held));
        assert!(!foreign.is_of_this_image());
        let refused = foreign.downcast::<Arc<i32>>().expect_err("the type is not that of this image");
        assert!(refused.type_name().contains("i32"));
        assert_eq!(Arc::strong_count(&held), 2);
        drop(refused);
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(Value::new(1).is_of_this_image());
    }
}
