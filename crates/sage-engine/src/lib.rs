//! The one API of the product.
