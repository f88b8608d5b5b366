// Opened from the disk, the site may not fetch the pages that the search would quote; it lists their titles alone.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
