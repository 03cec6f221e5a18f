// SPDX-License-Identifier: Apache-2.0
// Sets the theme before the page is shown, so that a dark page does not begin white.
"use strict";
document.documentElement.dataset.theme = localStorage.getItem("sconce.theme") || "system";
