// SPDX-License-Identifier: Apache-2.0
// Sets the theme before the page is shown, so that a dark page is not white at first.
"use strict";
document.documentElement.dataset.theme = localStorage.getItem("sconce.theme") || "system";
