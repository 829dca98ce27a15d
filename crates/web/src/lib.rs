//! Pages for browsers: who may ask for them, how much may be sent, and how foreign text becomes HTML.
//!
//! [`serve`] listens on this machine only. [`Gate`] decides who may ask. What is on a page is behind
//! [`Site`], and [`Changes`] tells the browsers when there is something new.

mod answer;
mod body;
mod gate;
mod html;
mod serve;

pub use answer::{Answer, Request, Site, link};
pub use gate::{Gate, PublicUrl};
pub use html::Html;
pub use serve::{Changes, Error, Listener, serve};
